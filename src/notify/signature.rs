//! Signatures: how Meta proves that a body is its own, over the bytes as they were sent.
//!
//! In come a secret and the raw bytes; the signature is `sha256=` and the HMAC-SHA256 in hex.
//! Comparing takes as long for a wrong one as for a right one, so that none can be guessed by its beginning.

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

const PREFIX: &str = "sha256=";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The signature of a body.
pub fn sign(secret: &SecretString, body: &[u8]) -> String {
    let code = keyed(secret.expose_secret(), body).finalize().into_bytes();
    let mut signature = PREFIX.to_owned();
    for byte in code {
        signature.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
    }
    signature
}

/// Whether any of the secrets has signed the body so.
pub fn is_signed(signature: &str, body: &[u8], secrets: &[SecretString]) -> bool {
    let Some(code) = signature.trim().strip_prefix(PREFIX).and_then(bytes_of_hex) else {
        return false;
    };
    secrets.iter().any(|secret| keyed(secret.expose_secret(), body).verify_slice(&code).is_ok())
}

/// Whether a word is the secret one.
pub fn is_same(word: &str, secret: &SecretString) -> bool {
    // Of both only codes are compared, which tell nothing of how far they agree.
    let expected = keyed(secret.expose_secret(), b"").finalize().into_bytes();
    keyed(word, b"").verify_slice(&expected).is_ok()
}

fn keyed(secret: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut code = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .expect("an HMAC takes keys of any length");
    code.update(body);
    code
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    hex.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From RFC 4231, test case 2.
    const KNOWN: &str = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    const BODY: &[u8] = b"what do ya want for nothing?";

    #[test]
    fn a_body_is_signed_as_the_standard_says() {
        assert_eq!(sign(&"Jefe".into(), BODY), KNOWN);
        assert!(is_signed(KNOWN, BODY, &["new".into(), "Jefe".into()]));
        assert!(is_signed(&KNOWN.to_uppercase().replace("SHA", "sha"), BODY, &["Jefe".into()]));
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        let secrets = ["Jefe".into()];
        for signature in
            ["", "sha256=", &KNOWN[7..], &KNOWN[..70], &format!("{KNOWN}0"), "sha1=00", "sha256=zz"]
        {
            assert!(!is_signed(signature, BODY, &secrets), "{signature}");
        }
        assert!(!is_signed(KNOWN, b"what do ya want for nothing!", &secrets));
        assert!(!is_signed(KNOWN, BODY, &["jefe".into()]));
        assert!(!is_signed(KNOWN, BODY, &[]));
    }

    #[test]
    fn a_word_is_the_secret_one_or_not() {
        assert!(is_same("open sesame", &"open sesame".into()));
        for word in ["", "open", "open sesame ", "Open sesame"] {
            assert!(!is_same(word, &"open sesame".into()), "{word}");
        }
    }
}
