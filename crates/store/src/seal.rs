//! Random words for keys and tokens, and the key under which values are sealed: without it they are noise, and a
//! changed one does not open.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt;
use std::sync::Arc;
use valvehouse_core::text::hex;

/// The beginning of a sealed text.
const MARK: &str = "sealed:";
/// The shortest text that is taken for a key: what people can remember, others can guess.
pub const SHORTEST_KEY: usize = 32;

/// A key that seals and opens.
#[derive(Clone)]
pub struct SealKey(Arc<Keys>);

/// The keys that are derived from one text.
struct Keys {
    values: LessSafeKey,
    ids: hmac::Key,
}

impl SealKey {
    /// From a text of at least [`SHORTEST_KEY`] bytes, such as [`random_word`] gives; none from less.
    pub fn of(text: &str) -> Option<Self> {
        if text.len() < SHORTEST_KEY {
            return None;
        }
        let derived = Salt::new(HKDF_SHA256, b"valvehouse").extract(text.as_bytes());
        let values = derived.expand(&[b"stored values"], &CHACHA20_POLY1305).ok()?;
        let ids = derived.expand(&[b"ids of texts"], hmac::HMAC_SHA256).ok()?;
        Some(Self(Arc::new(Keys { values: LessSafeKey::new(UnboundKey::from(values)), ids: ids.into() })))
    }

    /// Returns a key that ends with the process.
    pub fn random() -> Self {
        // A random word is longer than the shortest key.
        Self::of(&random_word()).expect("a random word is a key")
    }

    /// Returns an id of a text, 24 hexadecimal digits: the same for the same text and subject. Without the key nobody can
    /// tell which text has it.
    pub fn id_of(&self, text: &str, about: &str) -> String {
        let mut parts = hmac::Context::with_key(&self.0.ids);
        parts.update(&(about.len() as u64).to_le_bytes());
        parts.update(about.as_bytes());
        parts.update(text.as_bytes());
        hex(&parts.sign().as_ref()[..12])
    }

    /// Seals a value; it opens only with the same subject.
    pub fn seal(&self, plain: &str, about: &str) -> String {
        format!("{MARK}{}", STANDARD_NO_PAD.encode(self.seal_bytes(plain.as_bytes(), about)))
    }

    /// Seals bytes; they open only with the same subject.
    pub fn seal_bytes(&self, plain: &[u8], about: &str) -> Vec<u8> {
        // 96 random bits: two of the stored values never have the same.
        let nonce: [u8; NONCE_LEN] = random();
        let mut sealed = plain.to_vec();
        self.0
            .values
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(about), &mut sealed)
            .expect("only values of 256 GB are too long");
        [&nonce[..], &sealed].concat()
    }

    /// The value again; none where it was sealed with another key or about something else, or was changed.
    pub fn open(&self, sealed: &str, about: &str) -> Option<String> {
        let bytes = STANDARD_NO_PAD.decode(sealed.strip_prefix(MARK)?).ok()?;
        String::from_utf8(self.open_bytes(&bytes, about)?).ok()
    }

    /// The bytes again; none where they were sealed with another key or about something else, or were changed.
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

/// Random bytes of the system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness no secret could be made: better none at all than one that can be guessed.
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

/// 256 random bits as 43 letters, digits, `-` and `_`.
pub fn random_word() -> String {
    URL_SAFE_NO_PAD.encode(random::<32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_nothing_of_its_text_without_the_key() {
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
    fn a_sealed_value_opens_with_its_key_as_what_it_is_about_and_not_otherwise() {
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
    fn no_two_random_words_are_alike() {
        let words: std::collections::HashSet<String> = (0..1_000).map(|_| random_word()).collect();
        assert_eq!(words.len(), 1_000);
        assert!(words.iter().all(|word| word.len() == 43), "{words:?}");
    }
}
