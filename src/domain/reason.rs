//! Reasons: why a call or a request is refused, in one closed list for both faces.
//!
//! A reason is a word for programs, in capitals; the sentence beside it is for people and may change.
//! The proto's comments and the README's table tell the same list, and a test compares the three.
//! What a reason is in gRPC and in HTTP is said once for each face, in `rpc` and in `web`.

/// The faces that give a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faces {
    /// gRPC and HTTP.
    Both,
    /// gRPC alone.
    Grpc,
    /// HTTP alone.
    Http,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $faces:ident;)+) => {
        /// Why something is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)+
        }

        impl Reason {
            /// Every reason, in the order in which they are told.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word, such as `JOB_NOT_FOUND`.
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// Who gives it.
            pub fn faces(self) -> Faces {
                match self { $(Self::$name => Faces::$faces),+ }
            }
        }
    };
}

reasons! {
    /// A field is wrong, or the request cannot be read.
    InvalidRequest = "INVALID_REQUEST", Both;
    /// A key is needed, and none was shown.
    KeyRequired = "KEY_REQUIRED", Both;
    /// What was shown is no key, or one that was revoked or has expired.
    KeyInvalid = "KEY_INVALID", Both;
    /// The key is not good for this.
    ScopeRequired = "SCOPE_REQUIRED", Both;
    /// The signature of what Meta calls in with is missing or wrong.
    Unauthenticated = "UNAUTHENTICATED", Http;
    /// The page of another website sent it.
    Forbidden = "FORBIDDEN", Http;
    /// There is no such job.
    JobNotFound = "JOB_NOT_FOUND", Both;
    /// The job had ended so long ago that it was removed.
    JobPruned = "JOB_PRUNED", Both;
    /// The job has no such step.
    StepNotFound = "STEP_NOT_FOUND", Both;
    /// The job never asked such an approval.
    ApprovalNotFound = "APPROVAL_NOT_FOUND", Both;
    /// There is no such notice.
    NoticeNotFound = "NOTICE_NOT_FOUND", Both;
    /// Nothing is at this path, or behind this link.
    NotFound = "NOT_FOUND", Http;
    /// The path does not take this method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", Http;
    /// The id is taken by another submission.
    JobIdConflict = "JOB_ID_CONFLICT", Both;
    /// The id of the request was used for another action on this job.
    RequestIdConflict = "REQUEST_ID_CONFLICT", Both;
    /// The action contradicts the job's state.
    JobStateConflict = "JOB_STATE_CONFLICT", Both;
    /// The notice cannot be sent again.
    NoticeKept = "NOTICE_KEPT", Both;
    /// It has to be said which approval is meant.
    ApprovalIdRequired = "APPROVAL_ID_REQUIRED", Both;
    /// The approval is no longer pending.
    ApprovalClosed = "APPROVAL_CLOSED", Both;
    /// The step does not let it be sent back, or no more.
    ChangesNotAllowed = "CHANGES_NOT_ALLOWED", Both;
    /// The step does not let its output be edited.
    EditNotAllowed = "EDIT_NOT_ALLOWED", Both;
    /// The approver has already decided the other way.
    AlreadyVoted = "ALREADY_VOTED", Both;
    /// A newer release stored the job.
    SpecVersionUnknown = "SPEC_VERSION_UNKNOWN", Both;
    /// The watch is to begin beyond the job's last event.
    SequenceOutOfRange = "SEQUENCE_OUT_OF_RANGE", Grpc;
    /// The database is away, or the server is stopping.
    Unavailable = "UNAVAILABLE", Both;
    /// The client did not take what a watch had for it.
    WatchLagged = "WATCH_LAGGED", Grpc;
    /// Too much at once.
    Overloaded = "OVERLOADED", Both;
    /// Too much in a short time.
    RateLimited = "RATE_LIMITED", Both;
    /// It took longer than the server allows.
    DeadlineExceeded = "DEADLINE_EXCEEDED", Grpc;
    /// There is no such method, or a compression that is not spoken.
    Unimplemented = "UNIMPLEMENTED", Grpc;
    /// A fault of the server.
    Internal = "INTERNAL", Both;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_short_in_capitals_and_said_once() {
        let mut words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        for word in &words {
            assert!(word.len() <= 63, "{word}: the longest that an ErrorInfo may have");
            assert!(word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{word}");
        }
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count);
    }
}
