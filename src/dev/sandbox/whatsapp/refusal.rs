//! The error answers of the Graph API.
//! In comes Meta's code and what is wrong in this case; out go the status, the headers and the body.
//! A code, its title and the status seen with it stand in one table, so that a script needs the code only.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::super::fault::WhatsappFault;

/// Code, HTTP status and title: what the service has been seen to answer.
const KNOWN: [(u32, u16, &str); 65] = [
    (0, 401, "Error validating access token"),
    (1, 500, "An unknown error has occurred"),
    (2, 503, "Service temporarily unavailable"),
    (3, 400, "Application does not have the capability to make this API call"),
    (4, 400, "Application request limit reached"),
    (10, 403, "Application does not have permission for this action"),
    (33, 400, "Parameter value is not valid"),
    (100, 400, "Invalid parameter"),
    (190, 401, "Error validating access token"),
    (200, 403, "Permission denied"),
    (368, 403, "Temporarily blocked for policies violations"),
    (80_007, 400, "Rate limit issues"),
    (130_403, 400, "The recipient is blocked by the business"),
    (130_429, 429, "Rate limit hit"),
    (130_472, 400, "User's number is part of an experiment"),
    (130_497, 403, "Business account is restricted from messaging users in this country"),
    (131_000, 500, "Something went wrong"),
    (131_005, 403, "Access denied"),
    (131_008, 400, "Required parameter is missing"),
    (131_009, 400, "Parameter value is not valid"),
    (131_016, 503, "Service unavailable"),
    (131_021, 400, "Recipient cannot be sender"),
    (131_026, 400, "Message undeliverable"),
    (131_030, 400, "Recipient phone number not in allowed list"),
    (131_031, 403, "Account has been locked"),
    (131_037, 400, "Display name approval is required"),
    (131_042, 400, "Business eligibility payment issue"),
    (131_045, 500, "Incorrect certificate"),
    (131_047, 400, "Re-engagement message"),
    (131_048, 400, "Spam rate limit hit"),
    (131_049, 400, "This message was not delivered to maintain healthy ecosystem engagement"),
    (131_050, 400, "The recipient has stopped marketing messages of this business"),
    (131_051, 400, "Unsupported message type"),
    (131_052, 400, "Media download error"),
    (131_053, 400, "Media upload error"),
    (131_056, 400, "(Business Account, Consumer Account) pair rate limit hit"),
    (131_057, 400, "Account in maintenance mode"),
    (131_062, 400, "Business-scoped user id is not supported for this message"),
    (131_063, 400, "Marketing messages are disabled"),
    (131_064, 400, "Direct send classification limit hit"),
    (132_000, 400, "Number of parameters does not match the expected number of params"),
    (132_001, 404, "Template name does not exist in the translation"),
    (132_005, 400, "Translated text too long"),
    (132_007, 400, "Template format character policy violated"),
    (132_008, 400, "Template parameter value is not valid"),
    (132_012, 400, "Parameter format does not match format in the created template"),
    (132_015, 400, "Template is paused"),
    (132_016, 400, "Template is disabled"),
    (132_018, 400, "There is an issue with the parameters in your template"),
    (132_021, 400, "Template name is taken"),
    (132_068, 400, "Flow is blocked"),
    (132_069, 400, "Flow is throttled"),
    (133_000, 400, "Incomplete deregistration"),
    (133_004, 503, "Server temporarily unavailable"),
    (133_005, 400, "Two step verification PIN mismatch"),
    (133_006, 400, "Phone number re-verification needed"),
    (133_008, 400, "Too many two step verification PIN guesses"),
    (133_009, 400, "Two step verification PIN guessed too fast"),
    (133_010, 400, "Phone number not registered"),
    (133_015, 400, "Please wait a few minutes before attempting to register this phone number"),
    (133_016, 400, "Account register or deregister rate limit exceeded"),
    (134_011, 400, "Payments terms of service are not accepted"),
    (135_000, 400, "Generic user error"),
    (137_000, 400, "Recipient identity key mismatch"),
    (139_200, 400, "Direct send is blocked"),
];

/// An error answer of the Graph API.
#[derive(Debug, PartialEq, Eq)]
pub struct GraphError {
    status: u16,
    /// Meta's error code.
    pub code: u32,
    subcode: Option<u32>,
    message: String,
    details: Option<String>,
    headers: Vec<(&'static str, String)>,
}

impl GraphError {
    /// An error with Meta's code and title, and the details of this case.
    pub fn new(code: u32, details: impl Into<String>) -> Self {
        let (status, title) = known(code);
        let message = format!("(#{code}) {title}");
        let details = Some(details.into());
        Self { status, code, subcode: None, message, details, headers: Vec::new() }
    }

    fn bare(status: u16, code: u32, subcode: Option<u32>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, code, subcode, message, details: None, headers: Vec::new() }
    }

    /// Meta's title of a code.
    pub fn title(code: u32) -> &'static str {
        known(code).1
    }

    /// A parameter that is missing or of the wrong shape, in Meta's words.
    pub fn parameter(message: impl AsRef<str>) -> Self {
        Self::bare(400, 100, None, format!("(#100) {}", message.as_ref()))
    }

    /// A path that the Graph API does not know.
    pub fn unknown_path(path: &str) -> Self {
        Self::bare(400, 2500, None, format!("Unknown path components: {path}"))
    }

    /// An object that does not exist, or that the token may not see.
    pub fn unknown_object(id: &str) -> Self {
        let message = format!(
            "Unsupported post request. Object with ID '{id}' does not exist, cannot be loaded due \
             to missing permissions, or does not support this operation"
        );
        Self::bare(400, 100, Some(33), message)
    }

    /// A token that is none.
    pub fn no_token() -> Self {
        Self::bare(401, 190, None, "Invalid OAuth access token - Cannot parse access token")
            .challenge()
    }

    /// A token whose time is over.
    pub fn expired_token() -> Self {
        let message = "Error validating access token: Session has expired.";
        Self::bare(401, 190, Some(463), message).challenge()
    }

    fn challenge(mut self) -> Self {
        let words = format!("OAuth \"Facebook Platform\" \"invalid_token\" \"{}\"", self.message);
        self.headers.push(("www-authenticate", words));
        self
    }

    /// The error that a script asks for, if it asks for one.
    pub fn scripted(fault: &WhatsappFault) -> Option<Self> {
        if fault.status.is_none() && fault.code.is_none() {
            return None;
        }
        let details = fault.details.clone().unwrap_or_else(|| "a scripted fault".to_owned());
        let mut error = Self::new(fault.code.unwrap_or(131_000), details);
        error.status = fault.status.unwrap_or(error.status);
        error.subcode = fault.subcode;
        let wait = fault.retry_after_seconds.map(|seconds| seconds.to_string());
        let usage = fault.regain_access_minutes.map(usage);
        let headers = [("retry-after", wait), ("x-business-use-case-usage", usage)];
        error.headers.extend(headers.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Some(error)
    }

    fn body(&self) -> Value {
        let mut error = json!({
            "message": self.message, "type": "OAuthException", "code": self.code,
            "fbtrace_id": trace_id(),
        });
        if let Some(details) = &self.details {
            error["error_data"] = json!({"messaging_product": "whatsapp", "details": details});
        }
        if let Some(subcode) = self.subcode {
            error["error_subcode"] = subcode.into();
        }
        json!({"error": error})
    }
}

impl IntoResponse for GraphError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = (status, Json(self.body())).into_response();
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// The status and the title of a code.
fn known(code: u32) -> (u16, &'static str) {
    let code = if (200..=299).contains(&code) { 200 } else { code };
    let found = KNOWN.iter().find(|(known, ..)| *known == code);
    found.map_or((400, "The message could not be sent"), |(_, status, title)| (*status, *title))
}

/// The header that says how many minutes it takes until the account may send again.
fn usage(minutes: u32) -> String {
    json!({"102290129340398": [{
        "type": "whatsapp", "call_count": 100, "total_cputime": 25, "total_time": 25,
        "estimated_time_to_regain_access": minutes,
    }]})
    .to_string()
}

/// An id as Meta gives one to each answer, for its support.
pub fn trace_id() -> String {
    format!("A{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_shape_of_the_real_service() {
        let body = GraphError::new(132_001, "template name (x) does not exist in en").body();
        let error = &body["error"];
        assert_eq!(error["message"], "(#132001) Template name does not exist in the translation");
        assert_eq!((&error["type"], &error["code"]), (&json!("OAuthException"), &json!(132_001)));
        assert_eq!(error["error_data"]["messaging_product"], "whatsapp");
        assert_eq!(error["fbtrace_id"].as_str().unwrap().len(), 23);
        assert_eq!(GraphError::expired_token().body()["error"]["error_subcode"], 463);
    }

    #[test]
    fn each_code_stands_in_the_table_once_and_permissions_share_a_row() {
        for (n, (code, ..)) in KNOWN.iter().enumerate() {
            assert!(KNOWN[..n].iter().all(|(other, ..)| other != code), "{code}");
        }
        assert_eq!(known(299), (403, "Permission denied"));
        assert_eq!(known(999_999).0, 400);
    }

    #[test]
    fn a_script_says_which_error_and_when_to_come_back() {
        assert_eq!(GraphError::scripted(&WhatsappFault::default()), None);
        let fault = WhatsappFault {
            code: Some(80_007),
            retry_after_seconds: Some(7),
            regain_access_minutes: Some(3),
            ..WhatsappFault::default()
        };
        let response = GraphError::scripted(&fault).unwrap().into_response();
        assert_eq!(
            (response.status(), &response.headers()["retry-after"]),
            (StatusCode::BAD_REQUEST, &HeaderValue::from_static("7"))
        );
        let usage = response.headers()["x-business-use-case-usage"].to_str().unwrap();
        assert!(usage.contains("\"estimated_time_to_regain_access\":3"), "{usage}");
    }
}
