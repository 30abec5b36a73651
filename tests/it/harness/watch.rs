//! Reading watches: the events of a stream, up to its end or to what is looked for.

use std::collections::BTreeMap;

use longhaul::rpc::proto::{
    Event, EventKind, OutputDelta, WatchJobResponse, watch_job_response::Content,
};
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

/// A watch with the text of answers, which judges that its pieces fit together.
pub struct Close {
    stream: Streaming<WatchJobResponse>,
    /// What was told of each answer, by step and attempt; a retried job counts its attempts from 1 again.
    pub texts: BTreeMap<(i32, i32), String>,
    /// How many pieces there were.
    pub pieces: usize,
    /// The events, in order.
    pub events: Vec<Event>,
    over: Vec<(i32, i32)>,
}

impl Close {
    pub fn new(stream: Streaming<WatchJobResponse>) -> Self {
        let (texts, events, over) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { stream, texts, pieces: 0, events, over }
    }

    /// The next piece or event, taken in; nothing at the end of the watch.
    async fn take_next(&mut self) -> Option<Option<OutputDelta>> {
        let message = self.stream.message().await.unwrap()?;
        match message.content.expect("no message is empty") {
            Content::OutputDelta(piece) => {
                self.take(&piece);
                return Some(Some(piece));
            }
            Content::Event(event) => {
                let ends = [
                    EventKind::StepFinished,
                    EventKind::StepDelayed,
                    EventKind::AttemptLost,
                    EventKind::AttemptReleased,
                ];
                if ends.contains(&event.kind()) {
                    self.over.push((event.step, event.attempt));
                }
                self.events.push(event);
            }
            Content::Snapshot(_) | Content::Heartbeat(_) | Content::Notice(_) => {}
        }
        Some(None)
    }

    fn take(&mut self, piece: &OutputDelta) {
        let place = (piece.step, piece.attempt);
        assert!(!self.over.contains(&place), "{piece:?} comes after the end of its attempt");
        let last = self.texts.last_key_value().map(|(last, _)| *last);
        assert!(last.is_none_or(|last| last <= place), "{piece:?} comes after one of {last:?}");
        let text = self.texts.entry(place).or_default();
        assert_eq!(piece.offset as usize, text.chars().count(), "{piece:?} after {text:?}");
        assert!(!piece.text.is_empty(), "a piece has text");
        text.push_str(&piece.text);
        self.pieces += 1;
    }

    /// The next piece.
    pub async fn piece(&mut self) -> OutputDelta {
        let read = async {
            loop {
                let next = self.take_next().await.expect("the watch has not ended");
                if let Some(piece) = next {
                    return piece;
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("a piece comes")
    }

    /// Reads until there is so much of an answer.
    pub async fn until(&mut self, place: (i32, i32), chars: usize) {
        let read = async {
            while self.texts.get(&place).is_none_or(|text| text.chars().count() < chars) {
                self.take_next().await.expect("the watch has not ended");
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("the text comes");
    }

    /// Reads to the end, which has to come by itself.
    pub async fn until_end(mut self) -> Self {
        let read = async { while self.take_next().await.is_some() {} };
        tokio::time::timeout(PATIENCE * 3, read).await.expect("a watch ends with its job");
        self
    }
}
