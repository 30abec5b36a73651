//! Server-sent events, from bytes: a pure decoder that does not care where the chunks are cut.
//!
//! In come chunks of a response body, out come events with their name and data.
//! An event that is not finished by an empty line is never handed out, as the standard demands,
//! and what one stream may hold in memory is bounded.

use std::borrow::Cow;

/// More than any answer can need: a request to the provider may have 32 MB, with all its search results.
const MAX_STREAM_BYTES: usize = 64 * 1024 * 1024;

/// `SseEvent` is one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its data; lines are joined by line feeds.
    pub data: String,
}

/// `SseDecoder` turns chunks of bytes into events.
#[derive(Default)]
pub(super) struct SseDecoder {
    /// What was pushed, from the line that is not finished yet on.
    buffer: Vec<u8>,
    line_starts_at: usize,
    searched_to: usize,
    begun: SseEvent,
    has_data: bool,
    finished: SseEvent,
    received_bytes: usize,
    is_after_cr: bool,
    is_after_first_line: bool,
}

/// `TooLong` says that a stream went beyond what may be held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl SseDecoder {
    /// Takes the next chunk; the events it finishes are to be taken before the next one comes.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), TooLong> {
        self.received_bytes = self.received_bytes.saturating_add(chunk.len());
        if self.received_bytes > MAX_STREAM_BYTES {
            return Err(TooLong);
        }
        self.buffer.drain(..self.line_starts_at);
        self.searched_to -= self.line_starts_at;
        self.line_starts_at = 0;
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The next event that is finished.
    pub fn take(&mut self) -> Option<&SseEvent> {
        let ends_line = |byte: &u8| matches!(byte, b'\n' | b'\r');
        while let Some(length) = self.buffer[self.searched_to..].iter().position(ends_line) {
            let (start, end) = (self.line_starts_at, self.searched_to + length);
            let byte = self.buffer[end];
            (self.line_starts_at, self.searched_to) = (end + 1, end + 1);
            let is_after_cr = std::mem::replace(&mut self.is_after_cr, byte == b'\r');
            let ends_crlf = is_after_cr && byte == b'\n' && start == end;
            if !ends_crlf && self.end_line(start, end) {
                return Some(&self.finished);
            }
        }
        self.searched_to = self.buffer.len();
        None
    }

    /// Takes in a line; says whether it finishes an event.
    fn end_line(&mut self, start: usize, end: usize) -> bool {
        let line = &self.buffer[start..end];
        // Nearly always it is valid, which is found out faster than what is not.
        let line = str::from_utf8(line)
            .map_or_else(|_invalid| String::from_utf8_lossy(line), Cow::Borrowed);
        let line = if std::mem::replace(&mut self.is_after_first_line, true) {
            &line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        };
        if line.is_empty() {
            std::mem::swap(&mut self.begun, &mut self.finished);
            self.begun.name.clear();
            self.begun.data.clear();
            return std::mem::take(&mut self.has_data);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.begun.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.begun.data.push('\n');
                }
                self.begun.data.push_str(value);
            }
            // Comments, `id` and `retry` say nothing about an answer.
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk).expect("it is short");
            while let Some(event) = decoder.take() {
                events.push((event.name.clone(), event.data.clone()));
            }
        }
        events
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn events_have_a_name_and_data_whatever_ends_their_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let stream =
                format!("event: a{end}data: 1{end}data:2{end}{end}data{end}{end}: hi{end}");
            assert_eq!(decoded(&[stream.as_bytes()]), [pair("a", "1\n2"), pair("", "")]);
        }
    }

    #[test]
    fn a_byte_order_mark_comments_and_unknown_fields_are_skipped() {
        let stream = "\u{feff}event: a\n:comment\nid: 7\nretry: 9\nfoo: bar\ndata:  x: y\n\n";
        assert_eq!(decoded(&[stream.as_bytes()]), [pair("a", " x: y")]);
    }

    #[test]
    fn an_event_without_data_or_without_an_end_is_dropped() {
        assert_eq!(decoded(&[b"event: a\n\ndata: 1\n\nevent: b\ndata: 2\n"]), [pair("", "1")]);
    }

    #[test]
    fn a_stream_without_end_is_refused() {
        let mut decoder = SseDecoder::default();
        let chunk = vec![b'x'; MAX_STREAM_BYTES];
        assert_eq!(decoder.push(&chunk), Ok(()));
        assert_eq!(decoder.take(), None);
        assert_eq!(decoder.push(b"x"), Err(TooLong));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            stream in "(event: [ab]|data: ?[aé:]{0,3}|\r|\n|\r\n|\n\n|\u{feff}|:){0,30}",
            size in 1_usize..9,
        ) {
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            prop_assert_eq!(decoded(&chunks), decoded(&[stream.as_bytes()]));
        }
    }
}
