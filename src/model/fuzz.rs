//! What a fuzzer calls of the provider's client: an answer that streams, and a price list that is imported.
//!
//! There in tests and for the fuzzer alone, as `domain::fuzz` says.

use super::PriceFile;
use super::reply::Partial;
use super::sse::SseDecoder;
use super::stream::{Accumulator, Heard};
use crate::domain::fuzz::today;

/// The first byte says how long the pieces are in which the rest arrives; what comes of it does not depend on that.
pub fn stream(bytes: &[u8]) {
    let Some((piece, rest)) = bytes.split_first() else { return };
    let (whole, seen) = heard(rest, rest.len().max(1));
    let pieces = heard(rest, usize::from(*piece).max(1));
    assert_eq!((whole, seen), pieces);
}

/// What a stream comes to that arrives in pieces of so many bytes: its text or its error, and what was seen on the way.
fn heard(bytes: &[u8], piece: usize) -> (Result<String, String>, String) {
    let partial = Partial::default();
    let mut answer = Accumulator::new(partial.clone(), None);
    let mut decoder = SseDecoder::default();
    let mut failed = None;
    'all: for chunk in bytes.chunks(piece) {
        decoder.push(chunk).expect("it is shorter than any limit");
        while let Some(event) = decoder.take() {
            match answer.hear(event) {
                Ok(Heard::Nothing | Heard::Progress) => {}
                Ok(Heard::End) => break 'all,
                Err(error) => {
                    failed = Some(error);
                    break 'all;
                }
            }
        }
    }
    let text = partial.seen().text;
    assert!(!text.contains('\0'), "Postgres cannot keep it");
    let ended = match failed {
        Some(error) => Err(error),
        None => answer.finish(),
    };
    let ended = ended.map_err(|error| error.to_string());
    if let Ok(reply) = &ended {
        assert!(!reply.text.contains('\0') && !reply.stop_reason.contains('\0'));
        assert!(reply.content.get().starts_with('['));
    }
    (ended.map(|reply| reply.text), text)
}

/// A list is read: each price has its model and day once, and costs nothing below zero.
pub fn price_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(file) = PriceFile::read(&text, today()) else { return };
    let ids: Vec<_> = file.prices.iter().map(|one| (&one.model, one.valid_from)).collect();
    assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]));
    for one in &file.prices {
        let rates = one.price.rates;
        let all = [rates.input, rates.output, rates.cache_read];
        assert!(all.iter().all(|rate| !rate.is_sign_negative()), "{one:?}");
    }
    assert!(file.left_out.iter().all(|one| !one.why.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_streams_and_their_neighbours_break_no_law() {
        crate::domain::fuzz::sown::try_all("stream", stream);
    }

    #[test]
    fn seeds_of_price_lists_and_their_neighbours_break_no_law() {
        crate::domain::fuzz::sown::try_all("price_file", price_file);
    }
}
