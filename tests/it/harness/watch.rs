//! Reading watches: the events of a stream, up to its end or to what is looked for.

use longhaul::rpc::proto::{Event, EventKind, WatchJobResponse, watch_job_response::Content};
use tonic::Streaming;

use super::PATIENCE;

/// The first event of a kind; a stream that ends without one fails the test.
pub async fn find_event(mut stream: Streaming<WatchJobResponse>, kind: EventKind) -> Event {
    loop {
        let message = stream.message().await.unwrap();
        let message = message.unwrap_or_else(|| panic!("the watch ended without {kind:?}"));
        if let Some(Content::Event(event)) = message.content
            && event.kind() == kind
        {
            return event;
        }
    }
}

/// Every event of a stream, which has to end by itself.
pub async fn events_until_end(mut stream: Streaming<WatchJobResponse>) -> Vec<Event> {
    let read = async {
        let mut events = Vec::new();
        while let Some(message) = stream.message().await.unwrap() {
            if let Some(Content::Event(event)) = message.content {
                events.push(event);
            }
        }
        events
    };
    tokio::time::timeout(PATIENCE, read).await.expect("a watch ends with its job")
}

/// How often a kind is among the events.
pub fn events_of(events: &[Event], kind: EventKind) -> usize {
    events.iter().filter(|event| event.kind() == kind).count()
}
