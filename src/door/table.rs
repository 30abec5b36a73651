//! The one table of what each call and each route needs.
//!
//! Whatever is not in it needs an admin, so that nothing new is ever open by mistake.

use crate::domain::approval::Verdict;
use crate::domain::key::Scope;
use crate::engine::control::Command;

use Scope::{Approve, Control, Read, Submit};

/// What something needs: one of these scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is known in another way, or tells nothing.
    Nothing,
    /// A key with at least one of these; where what is asked decides, the service looks again.
    AnyOf(&'static [Scope]),
}

/// The calls of `longhaul.v1.JobService`.
pub const RPCS: [(&str, Need); 10] = [
    ("SubmitJob", Need::AnyOf(&[Submit])),
    // With include_links also `approve`.
    ("GetJob", Need::AnyOf(&[Read])),
    // What the action needs: see `scope_of`.
    ("Control", Need::AnyOf(&[Control, Approve, Read])),
    ("RevokeLinks", Need::AnyOf(&[Approve])),
    ("WatchJob", Need::AnyOf(&[Read])),
    ("ListJobs", Need::AnyOf(&[Read])),
    ("ControlJobs", Need::AnyOf(&[Control])),
    ("ListNotices", Need::AnyOf(&[Read])),
    ("ResendNotice", Need::AnyOf(&[Control])),
    ("GetUsage", Need::AnyOf(&[Read])),
];

/// The routes of the sidecar, without the path of the public URL.
pub const ROUTES: [(&str, Need); 10] = [
    ("/webhook/durable-job", Need::AnyOf(&[Submit])),
    // What the action needs: see `scope_of`.
    ("/webhook/durable-job-control", Need::AnyOf(&[Control, Approve, Read])),
    // Meta signs what it sends.
    ("/webhook/whatsapp", Need::Nothing),
    // The token in the path is the right.
    ("/approvals/{token}", Need::Nothing),
    ("/approvals", Need::Nothing),
    ("/approvals/", Need::Nothing),
    ("/approvals/{token}/", Need::Nothing),
    ("/approvals/{token}/{*more}", Need::Nothing),
    ("/healthz", Need::Nothing),
    // What every server of this release says.
    ("/openapi.json", Need::Nothing),
];

/// What something needs that has no row.
const UNKNOWN: Need = Need::AnyOf(&[Scope::Admin]);

/// What a call needs.
pub fn need_of_rpc(method: &str) -> Need {
    RPCS.iter().find(|(name, _)| *name == method).map_or(UNKNOWN, |(_, need)| *need)
}

/// What a route needs, as the router has matched it.
pub fn need_of_route(matched: &str) -> Need {
    let is_it = |route: &str| matched.ends_with(route);
    // The longest, since a prefix may be anything.
    let routes = ROUTES.iter().filter(|(route, _)| is_it(route));
    routes.max_by_key(|(route, _)| route.len()).map_or(UNKNOWN, |(_, need)| *need)
}

/// What an action on a job needs.
pub fn scope_of(command: &Command) -> Scope {
    match command {
        Command::Status => Read,
        Command::Pause { .. }
        | Command::Resume { .. }
        | Command::Cancel { .. }
        | Command::Retry { .. } => Control,
        Command::Decide { verdict, .. } => match verdict {
            Verdict::Approve | Verdict::Reject | Verdict::RequestChanges => Approve,
        },
    }
}
