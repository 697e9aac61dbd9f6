//! Which blocks of an answer have to be remembered, so that the same blocks can be made of it again.
//!
//! Thinking, then text, then calls is how blocks come of themselves: nothing is remembered of those.
//! A signature, a citation, a search or another order is.

use valvehouse_json::Json;

/// Kinds of blocks, in the order in which they come of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Rank {
    #[default]
    Thinking,
    Text,
    Call,
}

/// The parts of the blocks so far that are remembered.
#[derive(Debug, Default)]
pub(super) struct Layout {
    rank: Rank,
    /// Blocks that need not be remembered unless one comes that must.
    pending: Vec<Json>,
}

impl Layout {
    /// A block begins: what must now be remembered of those before it.
    pub(super) fn begin(&mut self, rank: Rank) -> Vec<Json> {
        let follows =
            self.pending.is_empty() || rank > self.rank || (rank, self.rank) == (Rank::Call, Rank::Call);
        let items = if follows { Vec::new() } else { std::mem::take(&mut self.pending) };
        self.rank = rank;
        items
    }

    /// A block that comes of itself has ended.
    pub(super) fn end_plain(&mut self, item: Json) {
        self.pending.push(item);
    }

    /// A block has ended that must be remembered.
    pub(super) fn end(&mut self, item: Json) -> Vec<Json> {
        self.pending.push(item);
        std::mem::take(&mut self.pending)
    }
}
