//! Randomness of the system, where guessing has to be hopeless.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes nobody can guess.
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
    fn no_two_random_words_are_alike() {
        let words: std::collections::HashSet<String> = (0..1_000).map(|_| random_word()).collect();
        assert_eq!(words.len(), 1_000);
        assert!(words.iter().all(|word| word.len() == 43), "{words:?}");
    }
}
