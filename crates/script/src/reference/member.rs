//! What may stand behind the dot of a value.

use super::function::{Function, Origin, functions};
use super::handle::{Form, Handle, Word, handle, word_of};
use crate::engine;
use crate::value::Type;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// All words behind the dot of a value of this kind: its own, then those of lists, maps and texts. Of a
/// value that nothing is known of, there are none.
pub fn members(kind: Type) -> Vec<Word> {
    let own: &[Word] = match kind {
        Type::Handle(name) => handle(name).map_or(&[], |handle: &Handle| &handle.words),
        Type::Any | Type::Nothing => return Vec::new(),
        _ => &[],
    };
    let mut words = own.to_vec();
    for function in functions().iter().filter(|function| fits(function, kind)) {
        let is_there = words.iter().any(|word: &Word| word.name == function.name && word.form != Form::Key);
        let more_arguments = words.iter().any(|word| {
            word.name == function.name
                && matches!(&word.form, Form::Method(params) if params.len() != function.arguments().len())
        });
        if !is_there || more_arguments && !own.iter().any(|word| word.name == function.name) {
            words.push(word_of(function));
        }
    }
    words
}

/// Whether a function is a method of values of this kind.
fn fits(function: &Function, kind: Type) -> bool {
    let Some(first) = function.params.first().filter(|_| function.is_method) else { return false };
    match first.kind {
        Type::Any => function.origin == Origin::Host && (kind.is_list() || kind.is_map()),
        Type::Array => kind.is_list(),
        Type::Map => kind.is_map(),
        Type::Number => matches!(kind, Type::Number | Type::Integer),
        Type::Integer => matches!(kind, Type::Number | Type::Integer),
        other => other == kind,
    }
}

/// Properties that the language has on its own values: `text.len`, `number.is_odd`.
pub fn property_names() -> &'static BTreeSet<String> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let getters = engine::new().collect_fn_metadata(
            None,
            |info| Some(info.metadata.name.strip_prefix("get$")?.to_owned()),
            true,
        );
        getters.into_iter().collect()
    })
}
