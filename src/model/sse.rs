//! Server-sent events, from bytes: a pure decoder that does not care where the chunks are cut.
//!
//! In come chunks of a response body, out come events with their name and data.
//! An event that is not finished by an empty line is never handed out, as the standard demands,
//! and what one stream may hold in memory is bounded.

/// More than any answer can need: a request to the provider may have 32 MB, with all its search results.
const MAX_STREAM_BYTES: usize = 64 * 1024 * 1024;

/// `SseEvent` is one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its data; lines are joined by line feeds.
    pub data: String,
}

/// `SseDecoder` turns chunks of bytes into events.
#[derive(Default)]
pub(super) struct SseDecoder {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    received_bytes: usize,
    is_after_cr: bool,
    is_after_first_line: bool,
}

/// `TooLong` says that a stream went beyond what may be held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl SseDecoder {
    /// Takes the next chunk and returns the events it finishes.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        self.received_bytes = self.received_bytes.saturating_add(chunk.len());
        if self.received_bytes > MAX_STREAM_BYTES {
            return Err(TooLong);
        }
        let mut events = Vec::new();
        for &byte in chunk {
            let ends_crlf = byte == b'\n' && std::mem::take(&mut self.is_after_cr);
            match byte {
                b'\n' if ends_crlf => {}
                b'\n' | b'\r' => {
                    self.is_after_cr = byte == b'\r';
                    events.extend(self.end_line());
                }
                _ => {
                    self.is_after_cr = false;
                    self.line.push(byte);
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if std::mem::replace(&mut self.is_after_first_line, true) {
            &line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        };
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| SseEvent { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments, `id` and `retry` say nothing about an answer.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::default();
        let events = chunks.iter().flat_map(|chunk| decoder.feed(chunk).expect("it is short"));
        events.map(|event| (event.name, event.data)).collect()
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
        assert_eq!(decoder.feed(&chunk), Ok(vec![]));
        assert_eq!(decoder.feed(b"x"), Err(TooLong));
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
