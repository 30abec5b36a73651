//! Why a call failed: what the server said, or what became of the line to it.

use std::{collections::HashMap, error, fmt, iter, time::Duration};

use tonic::{Code, Status, TimeoutExpired};
use tonic_types::{FieldViolation, StatusExt as _};

/// Whose reasons those of an error are.
const DOMAIN: &str = "longhaul.dev";
/// What gRPC calls a line that broke, where the server itself said nothing.
const BROKEN: [Code; 5] =
    [Code::Unknown, Code::Internal, Code::Cancelled, Code::Aborted, Code::DataLoss];

/// What a call answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// A line that breaks is `Unavailable`, as it is to the clients of other languages. What lies beneath it, such as an
/// error of the connection, is the [source](error::Error::source).
#[derive(Debug)]
pub struct Error(Box<Parts>);

#[derive(Debug)]
struct Parts {
    code: Code,
    reason: String,
    metadata: HashMap<String, String>,
    fields: Vec<FieldViolation>,
    retry_after: Option<Duration>,
    status: Status,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Status::new(code, message).into()
    }

    /// The kind of error.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What went wrong, in words.
    pub fn message(&self) -> &str {
        self.0.status.message()
    }

    /// A word of the closed list in the proto, such as `JOB_NOT_FOUND`; empty where the server did not say it.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// What the reason is about, such as the `status` that contradicts an action.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.0.metadata
    }

    /// The fields of the request that are wrong.
    pub fn fields(&self) -> &[FieldViolation] {
        &self.0.fields
    }

    /// How long the server asks to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The status as it came.
    pub fn status(&self) -> &Status {
        &self.0.status
    }

    /// Whether a call that failed with it is tried again.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.code(), Code::Unavailable | Code::ResourceExhausted)
    }

    /// Whether a watch that ended with it is begun again, and a wait goes on.
    pub(crate) fn is_broken_line(&self) -> bool {
        self.is_transient() || self.reason().is_empty() && BROKEN.contains(&self.code())
    }

    /// How long to wait after it: as the server asks, or longer with each failure in a row, and not all at once.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let most = Duration::from_millis(100 << failures.min(6)).min(Duration::from_secs(5));
        self.retry_after().unwrap_or_else(|| most.mul_f64(rand::random_range(0.5..=1.0)))
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let mut causes = iter::successors(error::Error::source(&status), |cause| cause.source());
        let code = if causes.any(<dyn error::Error>::is::<TimeoutExpired>) {
            Code::DeadlineExceeded
        } else if error::Error::source(&status).is_some() && BROKEN.contains(&status.code()) {
            Code::Unavailable
        } else {
            status.code()
        };
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN).cloned();
        let (reason, metadata) = info.map(|info| (info.reason, info.metadata)).unwrap_or_default();
        let fields = details.bad_request().map(|wrong| wrong.field_violations.clone());
        Self(Box::new(Parts {
            code,
            reason,
            metadata,
            fields: fields.unwrap_or_default(),
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
            status,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            "" => write!(f, "{:?}: {}", self.code(), self.message()),
            reason => write!(f, "{reason}: {}", self.message()),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.status.source()
    }
}
