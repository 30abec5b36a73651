//! The sending number, as the Graph API shows it to whoever has a token for it.
//! In comes a GET with a token; out goes the number with its name and rating, or a refusal in Meta's words.

use axum::{
    Json,
    extract::Path,
    http::{HeaderMap, Method, Uri},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use super::{no_such_route, whatsapp::GraphError, wrong_method};

/// `GET /v{N}.{M}/{phone_number_id}`
pub async fn show(
    Path((version, phone_number_id)): Path<(String, String)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let is_version = version.starts_with('v') && version.contains('.');
    if !is_version {
        return no_such_route(uri).await;
    }
    if method != Method::GET {
        return wrong_method(uri).await;
    }
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if token.trim().is_empty() {
        return GraphError::no_token().into_response();
    }
    if !phone_number_id.bytes().all(|byte| byte.is_ascii_digit()) {
        return GraphError::unknown_path(uri.path()).into_response();
    }
    Json(json!({
        "id": phone_number_id, "display_phone_number": "+1 555-078-3881", "verified_name": "Longhaul Sandbox",
        "quality_rating": "GREEN", "status": "CONNECTED",
    }))
    .into_response()
}
