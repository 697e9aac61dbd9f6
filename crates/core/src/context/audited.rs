//! The side of a turn that filters in audit mode see.

use super::event::Events;
use super::exchange::Exchange;
use super::variables::Context;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The parts that a filter in audit mode has instead of the turn's own.
pub(super) struct AuditedSide {
    pub(super) context: Context,
    /// Events without a receiver.
    pub(super) events: Events,
    pub(super) exchange: Exchange,
}

/// The sides of a turn by filter.
#[derive(Default)]
pub(super) struct AuditedSides(Mutex<HashMap<String, Arc<AuditedSide>>>);

impl AuditedSides {
    /// Returns the side of a filter, a copy of the turn's own: for an event that of the events before, otherwise a new
    /// one with what the filter itself added to the metadata.
    pub(super) fn side(
        &self,
        filter: &str,
        is_event: bool,
        context: &Context,
        exchange: &Exchange,
    ) -> Arc<AuditedSide> {
        let mut sides = self.0.lock();
        let before = sides.get(filter);
        if let Some(side) = before.filter(|_| is_event) {
            return side.clone();
        }
        let kept = before.map(|side| side.context.metadata().entries());
        let context = context.fork();
        for (key, value) in kept.into_iter().flatten() {
            if context.metadata().get(&key).is_none() {
                context.metadata().edit(&key, value);
            }
        }
        let side = Arc::new(AuditedSide { context, events: Events::default(), exchange: exchange.beside() });
        sides.insert(filter.to_owned(), side.clone());
        side
    }
}
