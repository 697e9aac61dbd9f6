//! Comparison of vectors, and ranking of the best ones.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use valvehouse_core::provider::dot_product as dot;

/// Scales a vector to length 1; `None` for one without a direction.
pub(super) fn unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let largest = vector.iter().fold(0.0_f32, |most, part| most.max(part.abs()));
    if !(largest.is_finite() && largest > 0.0) || vector.iter().any(|part| part.is_nan()) {
        return None;
    }
    // Scaling by the largest component prevents overflow and underflow of the squares.
    vector.iter_mut().for_each(|part| *part /= largest);
    let length = dot(&vector, &vector).sqrt();
    vector.iter_mut().for_each(|part| *part /= length);
    Some(vector)
}

/// The best of many vectors. Equal scores are ordered by id.
pub(super) struct Best {
    most: usize,
    min_score: f32,
    heap: BinaryHeap<Candidate>,
}

#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    score: f32,
    id: String,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The worst candidate is the greatest, at the top of the heap.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then_with(|| self.id.cmp(&other.id))
    }
}

impl Best {
    pub(super) fn new(most: usize, min_score: f32) -> Self {
        Self { most, min_score, heap: BinaryHeap::new() }
    }

    /// Adds a candidate.
    pub(super) fn add(&mut self, id: &str, score: f32) {
        if score < self.min_score || self.most == 0 {
            return;
        }
        if self.heap.len() == self.most {
            let is_better = self
                .heap
                .peek()
                .is_some_and(|worst| worst.score < score || (worst.score == score && id < worst.id.as_str()));
            if !is_better {
                return;
            }
            self.heap.pop();
        }
        self.heap.push(Candidate { score, id: id.to_owned() });
    }

    /// Returns the ids and scores, best first.
    pub(super) fn finish(self) -> Vec<(String, f32)> {
        self.heap.into_sorted_vec().into_iter().map(|one| (one.id, one.score)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_top_results_equal_the_sorted_list(scores in prop::collection::vec(0_u8..9, 0..60), most in 0_usize..8) {
            let mut best = Best::new(most, 2.0);
            let named: Vec<(String, f32)> =
                scores.iter().enumerate().map(|(at, score)| (format!("{at:02}"), f32::from(*score))).collect();
            named.iter().for_each(|(id, score)| best.add(id, *score));
            let mut expected: Vec<(String, f32)> = named.into_iter().filter(|(_, score)| *score >= 2.0).collect();
            expected.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            expected.truncate(most);
            prop_assert_eq!(best.finish(), expected);
        }
    }

    #[test]
    fn a_zero_vector_cannot_be_normalized() {
        for none in [vec![], vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY]] {
            assert_eq!(unit(none), None);
        }
        assert_eq!(unit(vec![3.0, 4.0]), Some(vec![0.6, 0.8]));
        assert_eq!(unit(vec![f32::MAX, 0.0]), Some(vec![1.0, 0.0]));
        assert_eq!(unit(vec![0.0, 1e-40]).map(|unit| unit[1]), Some(1.0));
    }
}
