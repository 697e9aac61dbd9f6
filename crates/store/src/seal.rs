//! Random texts for keys and tokens, and the key that seals values. Without the key, a sealed value can
//! neither be read nor changed.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt;
use std::sync::Arc;
use valvehouse_core::text::hex;

/// The prefix of a sealed text.
const MARK: &str = "sealed:";
/// The minimum length of a key in bytes, because short keys can be guessed.
pub const SHORTEST_KEY: usize = 32;

/// A key that seals and opens values.
#[derive(Clone)]
pub struct SealKey(Arc<Keys>);

/// The keys that are derived from one text.
struct Keys {
    values: LessSafeKey,
    ids: hmac::Key,
}

impl SealKey {
    /// Creates a key from a text such as one of [`random_word`]; `None` if it has fewer than [`SHORTEST_KEY`]
    /// bytes.
    pub fn of(text: &str) -> Option<Self> {
        if text.len() < SHORTEST_KEY {
            return None;
        }
        let derived = Salt::new(HKDF_SHA256, b"valvehouse").extract(text.as_bytes());
        let values = derived.expand(&[b"stored values"], &CHACHA20_POLY1305).ok()?;
        let ids = derived.expand(&[b"ids of texts"], hmac::HMAC_SHA256).ok()?;
        Some(Self(Arc::new(Keys { values: LessSafeKey::new(UnboundKey::from(values)), ids: ids.into() })))
    }

    /// Returns a random key, which is not stored.
    pub fn random() -> Self {
        // A random text has more than the minimum length.
        Self::of(&random_word()).expect("a random word is a key")
    }

    /// Returns an id of a text with 24 hexadecimal digits, equal for equal text and subject. Without the key,
    /// the text cannot be found from the id.
    pub fn id_of(&self, text: &str, about: &str) -> String {
        let mut parts = hmac::Context::with_key(&self.0.ids);
        parts.update(&(about.len() as u64).to_le_bytes());
        parts.update(about.as_bytes());
        parts.update(text.as_bytes());
        hex(&parts.sign().as_ref()[..12])
    }

    /// Seals a text; it can be opened only with the same subject.
    pub fn seal(&self, plain: &str, about: &str) -> String {
        format!("{MARK}{}", STANDARD_NO_PAD.encode(self.seal_bytes(plain.as_bytes(), about)))
    }

    /// Seals bytes; they can be opened only with the same subject.
    pub fn seal_bytes(&self, plain: &[u8], about: &str) -> Vec<u8> {
        // A nonce of 96 random bits, so that no two stored values share one.
        let nonce: [u8; NONCE_LEN] = random();
        let mut sealed = plain.to_vec();
        self.0
            .values
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(about), &mut sealed)
            .expect("only values of 256 GB are too long");
        [&nonce[..], &sealed].concat()
    }

    /// Opens a sealed text; `None` if it was sealed with another key or subject, or was changed.
    pub fn open(&self, sealed: &str, about: &str) -> Option<String> {
        let bytes = STANDARD_NO_PAD.decode(sealed.strip_prefix(MARK)?).ok()?;
        String::from_utf8(self.open_bytes(&bytes, about)?).ok()
    }

    /// Opens sealed bytes; `None` if they were sealed with another key or subject, or were changed.
    pub fn open_bytes(&self, sealed: &[u8], about: &str) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        let plain = self.0.values.open_in_place(nonce, Aad::from(about), &mut rest).ok()?.len();
        rest.truncate(plain);
        Some(rest)
    }
}

/// Returns `true` if a text was sealed, with any key.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Returns random bytes from the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness, secrets could be guessed, so the process ends.
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

/// Returns 256 random bits as 43 letters, digits, `-` and `_`.
pub fn random_word() -> String {
    URL_SAFE_NO_PAD.encode(random::<32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reveals_nothing_of_its_text_without_the_key() {
        let (word, text) = (random_word(), "my dog is called Rex");
        let key = SealKey::of(&word).unwrap();
        let id = key.id_of(text, "user/ann");
        assert_eq!(id.len(), 24);
        assert_eq!(SealKey::of(&word).unwrap().id_of(text, "user/ann"), id, "the same after a restart");
        for other in [
            key.id_of(text, "user/bob"),
            key.id_of("my dog is called Max", "user/ann"),
            key.id_of("/annmy dog is called Rex", "user"),
            SealKey::of(&random_word()).unwrap().id_of(text, "user/ann"),
        ] {
            assert_ne!(other, id);
        }
    }

    #[test]
    fn a_sealed_value_opens_only_with_its_key_and_context() {
        let (key, text) = (SealKey::of(&random_word()).unwrap(), r#"{"token":"grün"}"#);
        let sealed = key.seal(text, "valves of one");
        assert!(is_sealed(&sealed) && !sealed.contains("token"), "{sealed}");
        assert_ne!(sealed, key.seal(text, "valves of one"), "equal values do not look equal");
        assert_eq!(key.open(&sealed, "valves of one").as_deref(), Some(text));
        assert_eq!(key.open(&sealed, "valves of two"), None);
        assert_eq!(SealKey::of(&random_word()).unwrap().open(&sealed, "valves of one"), None);
        for at in MARK.len()..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.open(&changed, "valves of one"), None, "changed at {at}");
        }
        for broken in ["", "sealed:", "sealed:AAAA", text, &sealed[..sealed.len() - 4]] {
            assert_eq!(key.open(broken, "valves of one"), None, "{broken}");
        }
        assert!(SealKey::of("0123456789012345678901234567890").is_none(), "short keys are guessed");
    }

    #[test]
    fn random_words_are_unique() {
        let words: std::collections::HashSet<String> = (0..1_000).map(|_| random_word()).collect();
        assert_eq!(words.len(), 1_000);
        assert!(words.iter().all(|word| word.len() == 43), "{words:?}");
    }
}
