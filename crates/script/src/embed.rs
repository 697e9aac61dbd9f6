//! Scripts of a program that embeds the library and has no host.

use super::problem::Problem;
use super::script::Script;
use super::settings::Settings;
use super::source::{Kind, SourceFile};
use std::sync::{Arc, Once};
use valvehouse_core::executor::STACK;
use valvehouse_core::filter::Filter;

/// A script that does not load, with everything that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<String>())]
pub struct NotLoaded(pub Vec<Problem>);

/// Compiles the text of a filter with its default valves, no grants and the default budgets.
///
/// Takes any thread: compiling, which wants a deep stack, runs on a thread of its own for its time. Logs one warning per
/// process if `valvehouse_memory::CountingAllocator` is not the global allocator: then budgets of operations and time hold, and
/// that of memory does not.
///
/// ```
/// let filter = valvehouse_script::filter("shout", "fn inlet(body) { body.messages[-1].content.make_upper(); body }")?;
/// assert_eq!(filter.name(), "shout");
/// # Ok::<(), valvehouse_script::NotLoaded>(())
/// ```
///
/// # Errors
/// Returns [`NotLoaded`] with the place of each problem and how to fix it.
pub fn filter(id: &str, text: &str) -> Result<Filter, NotLoaded> {
    warn_without_allocator();
    let file = SourceFile::new(Kind::Filter, id, format!("{id}.rhai"), text);
    let compile = || Script::compile(&file, &Settings::default());
    let compiled = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, compile);
        // Without a thread the caller's stack has to do.
        thread.map_or_else(
            |_| compile(),
            |thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    let script = compiled.map_err(NotLoaded)?;
    Ok(Arc::new(script).into_filter(Arc::default()))
}

fn warn_without_allocator() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !valvehouse_memory::is_installed() {
            tracing::warn!(
                "cannot limit the memory of scripts: missing counting allocator; install \
                 `valvehouse_memory::CountingAllocator` as the global allocator"
            );
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_does_not_load_names_the_place() {
        let error = filter("broken", "fn inlet(body) { body").err().unwrap().to_string();
        assert!(error.contains("broken.rhai:1"), "{error}");
    }

    #[test]
    fn a_nested_script_loads_on_a_thread_with_a_small_stack() {
        let text =
            format!("fn inlet(body) {{ {}body.x = 1;{} body }}", "if true { ".repeat(8), " }".repeat(8));
        let load = move || filter("nested", &text).map(drop).map_err(|error| error.to_string());
        let small = std::thread::Builder::new().stack_size(256 << 10).spawn(load);
        assert_eq!(small.unwrap().join().unwrap(), Ok(()));
    }
}
