//! Parts of one call that wait concurrently. They share the budget of the call.

use super::limits::ended;
use super::meter;
use super::wait::wait;
use crate::value::error;
use rhai::EvalAltResult;
use valvehouse_core::context::{Share, Turn};
use valvehouse_executor::{self as executor, Job, TogetherError};

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The maximum number of concurrent parts of calls in one request, including those of its model calls and tools.
const MAX_PARTS: usize = 1_024;

/// Runs parts of the running call concurrently, at most `limit` at a time. Returns their values in order; `None`
/// for a part that was ended because `is_enough` returned `true` for another part's value.
///
/// # Errors
/// Returns an error if the call ends meanwhile, such as because its time is over.
pub fn together<T: 'static>(
    turn: &Turn,
    works: Vec<Job<'_, T>>,
    limit: usize,
    is_enough: impl FnMut(&T) -> bool,
) -> Answer<Vec<Option<T>>> {
    let parts = works.len().min(limit);
    let Ok(_parts) = turn.load().claim(Share::Parts, parts, MAX_PARTS) else {
        return Err(error(format!(
            "cannot start {parts} parallel calls: a request has at most {MAX_PARTS} concurrent parts; lower \
             `limit`"
        )));
    };
    let outer = meter::is_branch();
    let inside = |is_inside: bool| meter::set_branch(outer || is_inside);
    let done = executor::together(works, limit, inside, is_enough, |woken| wait(turn, woken));
    done.map_err(|unfinished| match unfinished {
        TogetherError::Rest(why) => why,
        TogetherError::Lane(why) => error(why.to_string()),
    })
    .and_then(|values| meter::check_end().map(|()| values).map_err(ended))
}
