//! The vocabularies of OpenAI's encodings, packed: `packaging/vocabularies` writes their files.

use flate2::read::ZlibDecoder;
use rustc_hash::FxHashMap;
use std::io::Read as _;
use std::sync::LazyLock;
use tiktoken_rs::tokenizer::Tokenizer;
use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR, Rank};

const P50K: &[u8] = include_bytes!("vocabularies/p50k.zlib");
const CL100K: &[u8] = include_bytes!("vocabularies/cl100k.zlib");
const O200K: &[u8] = include_bytes!("vocabularies/o200k.zlib");

/// The tokens of p50k that r50k has, too: the others are runs of spaces.
const R50K_LEN: usize = 50_256;

/// Cuts texts of models before GPT-3.5 into words.
const OLD_PATTERN: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";
/// The same for GPT-3.5 and GPT-4.
const CL100K_PATTERN: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

/// Returns an encoding, which is unpacked when it is first used.
///
/// Encodings that differ only in their special tokens are one: a text that is counted has none.
pub(crate) fn encoding(tokenizer: Tokenizer) -> &'static CoreBPE {
    static R50K_BASE: LazyLock<CoreBPE> = LazyLock::new(|| unpack(P50K, R50K_LEN, OLD_PATTERN));
    static P50K_BASE: LazyLock<CoreBPE> = LazyLock::new(|| unpack(P50K, usize::MAX, OLD_PATTERN));
    static CL100K_BASE: LazyLock<CoreBPE> = LazyLock::new(|| unpack(CL100K, usize::MAX, CL100K_PATTERN));
    static O200K_BASE: LazyLock<CoreBPE> = LazyLock::new(|| unpack(O200K, usize::MAX, O200K_BASE_PAT_STR));
    match tokenizer {
        Tokenizer::R50kBase | Tokenizer::Gpt2 => &R50K_BASE,
        Tokenizer::P50kBase | Tokenizer::P50kEdit => &P50K_BASE,
        Tokenizer::Cl100kBase => &CL100K_BASE,
        Tokenizer::O200kBase | Tokenizer::O200kHarmony => &O200K_BASE,
    }
}

/// Reads the count of tokens, their lengths and their bytes, in the order of their ranks.
fn unpack(packed: &[u8], at_most: usize, pattern: &str) -> CoreBPE {
    let mut text = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut text).expect("a file that was packed whole");
    let (count, text) = text.split_first_chunk().expect("the count comes first");
    let (lengths, mut bytes) = text.split_at(u32::from_le_bytes(*count) as usize);
    let mut ranks = FxHashMap::with_capacity_and_hasher(lengths.len(), Default::default());
    for (rank, length) in (0 as Rank..).zip(lengths).take(at_most) {
        let token;
        (token, bytes) = bytes.split_at(usize::from(*length));
        if !token.is_empty() {
            ranks.insert(token.to_vec(), rank);
        }
    }
    // An encoding without any special token looks for the empty text.
    let special = FxHashMap::from_iter([("<|endoftext|>".to_owned(), Rank::MAX)]);
    CoreBPE::new(ranks, special, pattern).expect("a pattern that is tested")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn packed_vocabularies_count_like_those_of_openai() {
        let texts = [
            "",
            "hello world",
            "fn main() {\n        let greeting = \"hello\";\n}\n\n\t// done\r\n",
            "Größenwahn, \u{1f600}\u{1f600} naïveté; 東京都 Привет мир \u{200b} don't WE'LL 1234567.89",
            include_str!("vocabulary.rs"),
            include_str!("../../../README.md"),
        ];
        let both = [
            (Tokenizer::R50kBase, tiktoken_rs::r50k_base_singleton()),
            (Tokenizer::Gpt2, tiktoken_rs::r50k_base_singleton()),
            (Tokenizer::P50kBase, tiktoken_rs::p50k_base_singleton()),
            (Tokenizer::P50kEdit, tiktoken_rs::p50k_edit_singleton()),
            (Tokenizer::Cl100kBase, tiktoken_rs::cl100k_base_singleton()),
            (Tokenizer::O200kBase, tiktoken_rs::o200k_base_singleton()),
            (Tokenizer::O200kHarmony, tiktoken_rs::o200k_harmony_singleton()),
        ];
        let none = HashSet::new();
        for (tokenizer, theirs) in both {
            for text in texts {
                let ours = encoding(tokenizer).encode(text, &none).unwrap().0;
                assert_eq!(ours, theirs.encode(text, &none).unwrap().0, "{tokenizer:?}: {text:.40}");
            }
        }
    }
}
