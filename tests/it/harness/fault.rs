//! What a refused call tells a program, read from the details of its status.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// What a gRPC error tells.
#[derive(Debug)]
pub struct Told {
    pub code: Code,
    /// The reason of its one `ErrorInfo`.
    pub reason: String,
    pub metadata: HashMap<String, String>,
    /// The fields that are wrong, in order.
    pub fields: Vec<String>,
}

impl Told {
    /// What the error of a call that had to fail tells.
    pub fn by<T: std::fmt::Debug>(answer: Result<T, Status>) -> Self {
        Self::from(&answer.expect_err("this call has to be refused"))
    }
}

impl From<&Status> for Told {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let info = info.unwrap_or_else(|| panic!("an error without ErrorInfo: {status:?}"));
        let violations = details.bad_request().map(|request| request.field_violations.clone());
        let fields = violations.unwrap_or_default().into_iter().map(|one| one.field).collect();
        let (reason, metadata) = (info.reason.clone(), info.metadata.clone());
        Self { code: status.code(), reason, metadata, fields }
    }
}
