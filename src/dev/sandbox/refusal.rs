//! The error answers of the Messages API.
//! In comes a status and what is wrong; out goes the body, its headers and the whole answer.
//! The body is the same wherever it is sent: as an answer, as the event of a stream that breaks,
//! and as the result of one request in a batch.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

/// An error answer of the Messages API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: u16,
    kind: String,
    message: String,
    code: Option<String>,
}

impl Refusal {
    /// A refusal with the given status, `error.type` and message.
    pub fn new(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.into(), message.into());
        Self { status, kind, message, code: None }
    }

    /// A request that is wrong in itself.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// Something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "not_found_error", message)
    }

    /// A scripted failure; what is not given follows from the status.
    pub fn scripted(
        status: u16,
        kind: Option<String>,
        message: Option<String>,
        code: Option<String>,
    ) -> Self {
        let (usual_kind, usual_message) = match status {
            401 => ("authentication_error", "invalid x-api-key"),
            402 => ("billing_error", "Your credit balance is too low"),
            403 => ("permission_error", "Your API key may not use this resource"),
            404 => ("not_found_error", "Not found"),
            409 => ("conflict_error", "The request conflicts with another one"),
            413 => ("request_too_large", "Request exceeds the maximum size"),
            429 => ("rate_limit_error", "This request would exceed your rate limit"),
            504 => ("timeout_error", "The request timed out"),
            529 => ("overloaded_error", "Overloaded"),
            400..=499 => ("invalid_request_error", "The request is invalid"),
            _ => ("api_error", "Internal server error"),
        };
        let kind = kind.unwrap_or_else(|| usual_kind.to_owned());
        let message = message.unwrap_or_else(|| usual_message.to_owned());
        Self { code, ..Self::new(status, kind, message) }
    }

    /// The status it is answered with.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The body, also sent as the `error` event of a stream.
    pub fn body(&self, request_id: &str) -> Value {
        let mut error = json!({"type": self.kind, "message": self.message});
        if let Some(code) = &self.code {
            error["details"] = json!({"error_code": code});
        }
        json!({"type": "error", "error": error, "request_id": request_id})
    }

    /// The whole answer.
    pub fn into_response(self, request_id: &str) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = (status, Json(self.body(request_id))).into_response();
        mark(&mut response, "request-id", request_id);
        response
    }
}

/// Gives an answer a header; one that is none is left out.
pub fn mark(response: &mut Response, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
        response.headers_mut().insert(name, value);
    }
}
