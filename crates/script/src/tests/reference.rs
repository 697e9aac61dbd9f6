//! Tests that the reference is complete and lists nothing that does not exist.

use crate::declare::{hooks, manifest};
use std::collections::BTreeSet;
use valvehouse_core::callback::Callback;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::value::{PROPERTIES, Type};
use valvehouse_grants::Capability;
use valvehouse_script_std::engine;
use valvehouse_script_std::reference::*;

#[test]
fn the_reference_lists_every_function_of_the_engine() {
    let named: BTreeSet<(&str, &str)> =
        functions().iter().map(|function| (&*function.module, &*function.name)).collect();
    let registered = engine::new().collect_fn_metadata(
        None,
        |info| {
            let name = info.metadata.name.to_string();
            let is_word = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            is_word.then(|| (info.namespace.to_string(), name))
        },
        true,
    );
    // `invoke` is documented with `ctx.kernel`.
    let language = ["to_debug", "get_fn_metadata_list", "tag", "set_tag", "__call_tool__", "invoke"];
    let missing: BTreeSet<&(String, String)> = registered
        .iter()
        .filter(|(module, name)| !named.contains(&(module, name)) && !language.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_computed_property_is_documented_and_works() {
    let getters = engine::new().collect_fn_metadata(
        None,
        |info| Some(info.metadata.name.strip_prefix("get$")?.to_owned()),
        false,
    );
    let words: BTreeSet<&str> =
        handles().iter().flat_map(|handle| &handle.words).map(|word| word.name.as_str()).collect();
    for name in getters.iter().map(String::as_str).chain(PROPERTIES.iter().map(|property| property.name)) {
        let is_of_lists = ["len", "is_empty"].contains(&name);
        assert!(words.contains(name) || is_of_lists, "`{name}` is not a word of any value");
    }
    let undocumented: Vec<String> = handles()
        .iter()
        .flat_map(|handle| {
            handle.words.iter().filter(|word| word.doc.is_empty()).map(|word| word.signature(handle.name))
        })
        .collect();
    assert!(undocumented.is_empty(), "{undocumented:?}");
    assert!(handles().iter().all(|handle| !handle.about.is_empty()));
}

#[test]
fn every_hook_parameter_constant_and_capability_is_described() {
    let names =
        |role: ScriptRole| entries().iter().filter(move |entry| entry.role == role).map(|entry| entry.name);
    let filters: BTreeSet<&str> = names(ScriptRole::Filter).collect();
    assert_eq!(filters, Hook::ALL.map(Hook::name).into_iter().chain([hooks::DONE, "tick"]).collect());
    for hook in Hook::ALL {
        let subject = entry(hook.name()).and_then(|entry| entry.subject).map(|(name, _)| name);
        assert_eq!(subject, hooks::subject_name(hook), "{hook}");
    }
    let callbacks: BTreeSet<&str> = names(ScriptRole::Callback).collect();
    assert_eq!(callbacks, Callback::names().map(|(name, _)| name).collect());
    let named = |keys: &[KeyDoc]| keys.iter().map(|key| key.name).collect::<BTreeSet<_>>();
    let others = [hooks::OF_TOOLS.0, hooks::OF_PIPES.0, hooks::OF_ACTIONS.0];
    assert_eq!(named(PARAMETERS), hooks::param_names().chain(others).collect());
    assert_eq!(named(CONSTANTS), manifest::CONSTANTS.into());
    assert_eq!(named(CAPABILITIES), Capability::ALL.map(Capability::name).into());
    for (key, values) in manifest::SWITCHES {
        let described = frontmatter().iter().find(|described| described.name == key);
        assert_eq!(described.map(|described| described.values), Some(values), "{key}");
    }
    for kind in PARAMETERS
        .iter()
        .map(|key| key.kind)
        .chain(handles().iter().flat_map(|handle| handle.words.iter().map(|word| word.kind)))
    {
        if let Type::Handle(name) | Type::ListOf(name) = kind {
            assert!(handle(name).is_some(), "there is no {name}");
        }
    }
}
