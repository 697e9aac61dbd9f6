//! Callbacks written in Rust: closures that an agent calls during a run.

use crate::callbacks::event::CallbackEvent;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use valvehouse_core::callback::Callback;

type Handler = Arc<dyn Fn(&CallbackEvent) -> Option<String> + Send + Sync>;

/// The closures registered for an agent's events. The run waits for each call, so they should return quickly.
///
/// ```
/// use valvehouse_agent::callbacks::Callbacks;
/// let callbacks = Callbacks::new()
///     .on_tool_start(|event| eprintln!("calls {}", event.data.text_or_empty("tool")))
///     .on_turn_end(|_| std::fs::write("/tmp/done", ""));
/// # drop(callbacks);
/// ```
#[derive(Clone, Default)]
pub struct Callbacks(Vec<(Callback, Handler)>);

/// The return value of a callback: `()` or a `Result`.
pub trait CallbackResult {
    /// Returns the error message of a failed callback.
    fn failure(self) -> Option<String>;
}

impl CallbackResult for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T, E: Display> CallbackResult for Result<T, E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

impl Callbacks {
    /// Returns callbacks without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a closure for a callback.
    #[must_use]
    pub fn on<O: CallbackResult>(
        mut self,
        callback: Callback,
        handler: impl Fn(&CallbackEvent) -> O + Send + Sync + 'static,
    ) -> Self {
        self.0.push((callback, Arc::new(move |event| handler(event).failure())));
        self
    }

    /// Returns the first names of the callbacks with closures, without duplicates.
    pub fn names(&self) -> Vec<&'static str> {
        let names = Callback::ALL.into_iter().filter(|callback| self.handles(*callback));
        names.map(Callback::name).collect()
    }

    /// Returns `true` if there are no closures.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if there is a closure for this callback.
    pub fn handles(&self, callback: Callback) -> bool {
        self.0.iter().any(|(own, _)| *own == callback)
    }

    /// Calls the closures for an event. A failure is logged and does not affect the others.
    pub(super) fn notify(&self, event: &CallbackEvent) {
        for (_, handler) in self.0.iter().filter(|(own, _)| *own == event.callback) {
            let failure = catch_unwind(AssertUnwindSafe(|| handler(event)));
            if let Some(why) = failure.unwrap_or_else(|_| Some("it panicked".to_owned())) {
                tracing::warn!(
                    agent = event.agent_name,
                    run = event.run_id,
                    "{} failed: {why}",
                    event.callback
                );
            }
        }
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(callback, _)| callback.name())).finish()
    }
}

/// Defines a method for each name of a callback.
macro_rules! by_name {
    ($($name:ident $callback:ident $doc:literal,)*) => {
        impl Callbacks {
            $(
                #[doc = concat!("Adds a closure for `", stringify!($name), "`.")]
                #[must_use]
                pub fn $name<O: CallbackResult>(
                    self,
                    handler: impl Fn(&CallbackEvent) -> O + Send + Sync + 'static,
                ) -> Self {
                    self.on(Callback::$callback, handler)
                }
            )*

            #[cfg(test)]
            pub(super) const METHODS: &[(&str, Callback)] = &[$((stringify!($name), Callback::$callback)),*];
        }
    };
}

valvehouse_core::callback_names!(by_name);
