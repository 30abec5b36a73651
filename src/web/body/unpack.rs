//! Unpacking: a body that was compressed comes out as it was before, and never longer than a body may be.
//!
//! Taken are gzip and deflate, the two that n8n takes, and at most one of them at once.
//! What would unpack to more than the limit is given up at the limit, so that a bomb costs no more than an honest body.

use std::io::Read;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use super::{Fault, too_large};

/// The body as it was before it was compressed, if it was.
pub(super) fn unpack(headers: &HeaderMap, body: Bytes, bytes_max: usize) -> Result<Bytes, Fault> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let coding = match (codings.next(), codings.next()) {
        (None, _) => return Ok(body),
        (Some(one), None) => one.to_str().map(|one| one.trim().to_ascii_lowercase()),
        (Some(_), Some(_)) => return Err(unknown_coding()),
    };
    match coding.as_deref() {
        Ok("" | "identity") => Ok(body),
        Ok("gzip" | "x-gzip") => read(MultiGzDecoder::new(&body[..]), bytes_max),
        Ok("deflate") if looks_like_zlib(&body) => read(ZlibDecoder::new(&body[..]), bytes_max),
        // Some clients leave out the frame that the standard wants.
        Ok("deflate") => read(DeflateDecoder::new(&body[..]), bytes_max),
        Ok(_) | Err(_) => Err(unknown_coding()),
    }
}

fn read(unpacked: impl Read, bytes_max: usize) -> Result<Bytes, Fault> {
    let mut whole = Vec::new();
    // One more than there may be shows that there is more.
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let read = unpacked.take(most).read_to_end(&mut whole);
    read.map_err(|_broken| Fault::malformed("the body is not what its Content-Encoding says"))?;
    if whole.len() > bytes_max { Err(too_large(bytes_max)) } else { Ok(whole.into()) }
}

/// Whether it begins as RFC 1950 has it: the method is deflate, and both bytes together can be divided by 31.
fn looks_like_zlib(body: &[u8]) -> bool {
    let [first, second, ..] = body else { return false };
    first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
}

fn unknown_coding() -> Fault {
    Fault::malformed("the body is compressed in a way that is not taken")
        .code(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        .hint("send it with Content-Encoding gzip or deflate, or without")
        .header(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut to = ZlibEncoder::new(Vec::new(), Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    }

    fn bare(text: &[u8]) -> Vec<u8> {
        let mut to = DeflateEncoder::new(Vec::new(), Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    }

    fn unpacked(coding: &str, body: Vec<u8>, bytes_max: usize) -> Result<Bytes, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
        unpack(&headers, body.into(), bytes_max).map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn what_was_packed_comes_out_as_it_was() {
        let text = "{\"task\":\"长\"}".repeat(20);
        let halves = [gzip(&text.as_bytes()[..50]), gzip(&text.as_bytes()[50..])].concat();
        for (coding, body) in [
            ("gzip", gzip(text.as_bytes())),
            ("GZIP", halves),
            ("x-gzip", gzip(text.as_bytes())),
            ("deflate", zlib(text.as_bytes())),
            ("deflate", bare(text.as_bytes())),
            ("identity", text.clone().into_bytes()),
        ] {
            assert_eq!(unpacked(coding, body, text.len()).unwrap(), text, "{coding}");
        }
    }

    #[test]
    fn a_bomb_is_given_up_at_the_limit() {
        let bomb = vec![b' '; 64 << 20];
        for (coding, body) in [("gzip", gzip(&bomb)), ("deflate", zlib(&bomb))] {
            assert!(body.len() < 100_000);
            let fault = unpacked(coding, body, 1 << 20).unwrap_err();
            assert!(fault.contains("code: 413"), "{fault}");
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_refused() {
        for (coding, body, code) in [
            ("gzip", b"{}".to_vec(), "code: 400"),
            ("gzip", gzip(b"{\"task\":\"t\"}")[..20].to_vec(), "code: 400"),
            ("deflate", b"{\"task\"".to_vec(), "code: 400"),
            ("br", b"{}".to_vec(), "code: 415"),
            ("gzip, gzip", gzip(&gzip(b"{}")), "code: 415"),
        ] {
            let fault = unpacked(coding, body, 1 << 20).unwrap_err();
            assert!(fault.contains(code), "{coding}: {fault}");
        }
    }
}
