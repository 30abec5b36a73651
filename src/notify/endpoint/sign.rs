//! Signatures as Standard Webhooks has them, over the id, the time and the body as they are sent.
//!
//! A secret is `whsec_` and base64 of 24 to 64 random bytes; its signature is `v1,` and base64 of an HMAC-SHA256.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// What signs requests.
#[derive(Clone)]
pub struct Secret(SecretSlice<u8>);

impl Secret {
    /// The secret of a text, if it has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
        (24..=64).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mut code = Hmac::<Sha256>::new_from_slice(self.0.expose_secret())
            .expect("an HMAC takes keys of any length");
        code.update(id.as_bytes());
        code.update(b".");
        code.update(timestamp.as_bytes());
        code.update(b".");
        code.update(body);
        format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The header's value: one signature for each secret, so that a receiver may know the old or the new one.
pub(super) fn sign(secrets: &[Secret], id: &str, timestamp: &str, body: &[u8]) -> String {
    let signatures = secrets.iter().map(|secret| secret.sign(id, timestamp, body));
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the libraries of Standard Webhooks are tested with.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn signed(secrets: &[&str]) -> String {
        let secrets: Vec<Secret> =
            secrets.iter().map(|secret| Secret::parse(secret).unwrap()).collect();
        let body = br#"{"test": 2432232314}"#;
        sign(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    }

    #[test]
    fn a_body_is_signed_as_the_standard_says() {
        assert_eq!(signed(&[SECRET]), SIGNATURE);
    }

    #[test]
    fn two_secrets_make_two_signatures() {
        let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let both = signed(&[other, SECRET]);
        assert_eq!(both.split(' ').collect::<Vec<_>>(), [&signed(&[other]), SIGNATURE]);
    }

    #[test]
    fn what_has_not_the_form_of_a_secret_is_none() {
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_!"] {
            assert!(Secret::parse(text).is_none(), "{text}");
        }
        assert!(Secret::parse(&format!(" {SECRET}\n")).is_some());
        assert!(!format!("{:?}", Secret::parse(SECRET)).contains("Mf"));
    }
}
