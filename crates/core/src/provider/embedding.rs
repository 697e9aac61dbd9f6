//! Vectors of texts that are computed here, without a model: equal words and similar spellings are close.
//!
//! They compare words, not meanings. The same text has the same vector on every machine.

/// The name of the vectors.
pub const BUILTIN_EMBEDDING: &str = "builtin";
/// The number of dimensions.
const DIMENSIONS: usize = 256;
/// The weight of three letters of a word, relative to the word.
const TRIGRAM: f32 = 0.35;

/// Computes the vector of a text, of length 1.
pub fn builtin_embedding(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    let lower = text.to_lowercase();
    for word in lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let letters: Vec<char> = word.chars().collect();
        // Short words are mostly the same in all texts.
        let weight = match letters.len() {
            ..=2 => 0.2,
            3 => 0.5,
            _ => 1.0,
        };
        add(&mut vector, word.bytes(), weight);
        let padded: Vec<char> = [' '].into_iter().chain(letters).chain([' ']).collect();
        for three in padded.windows(3) {
            let mut bytes = [0; 12];
            for (place, letter) in bytes.chunks_mut(4).zip(three) {
                letter.encode_utf8(place);
            }
            add(&mut vector, bytes.into_iter(), weight * TRIGRAM);
        }
    }
    let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
    if length == 0.0 {
        // A text without words is close to no other.
        vector[DIMENSIONS - 1] = 1.0;
        return vector;
    }
    vector.iter_mut().for_each(|part| *part /= length);
    vector
}

/// Adds a feature at a place and with a sign that its hash (FNV-1a) selects.
fn add(vector: &mut [f32], bytes: impl Iterator<Item = u8>, weight: f32) {
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = hash ^ (hash >> 32);
    let sign = if mixed & (1 << 20) == 0 { weight } else { -weight };
    vector[(mixed % DIMENSIONS as u64) as usize] += sign;
}

/// The components that are multiplied at a time. A loop over so many is compiled to vector instructions.
const LANES: usize = 16;

/// Returns the sum of the products of the components of two vectors.
pub fn dot_product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (left, right) in left.zip(right) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(a: &str, b: &str) -> f32 {
        builtin_embedding(a).iter().zip(builtin_embedding(b)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_vector_product_equals_a_plain_loop() {
        for length in [0, 1, 15, 16, 17, 40, 1_024] {
            let a: Vec<f32> = (0..length).map(|at| (at as f32 * 0.37).sin()).collect();
            let b: Vec<f32> = (0..length).map(|at| (at as f32 * 0.73).cos()).collect();
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(dot_product(&a, &b)) - plain).abs() < 1e-3, "{length}");
        }
    }

    #[test]
    fn demo_embeddings_of_similar_texts_are_close() {
        let text = "My sister lives in Lisbon";
        assert!((similarity(text, text) - 1.0).abs() < 1e-5);
        let near = similarity(text, "Where does my sister live?");
        let far = similarity(text, "The invoice was paid on Monday");
        assert!(near > far + 0.2, "{near} {far}");
        assert!(similarity("Größe", "grösse") > similarity("Größe", "paid"));
        assert!((similarity("", "?!") - 1.0).abs() < 1e-5 && similarity("", text).abs() < 0.3);
    }
}
