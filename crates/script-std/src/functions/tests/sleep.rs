//! Tests that no function waits without a limit.

use crate::engine;
use rhai::Engine;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::language;

/// Rhai's own function would wait without checking a budget.
#[test]
fn every_sleep_of_the_standard_packages_is_refused() {
    let mut standard = Engine::new_raw();
    let [packages, ..] = language::modules();
    standard.register_global_module(packages);
    let all = standard.collect_fn_metadata(None, |info| Some(info.metadata.clone()), true);
    let all: Vec<_> = all.into_iter().filter(|function| function.name == "sleep").collect();
    assert!(!all.is_empty());
    let is_number = |of: &std::any::TypeId| {
        [std::any::TypeId::of::<rhai::INT>(), std::any::TypeId::of::<rhai::FLOAT>()].contains(of)
    };
    let odd: Vec<_> = all.iter().filter(|function| !function.param_types.iter().all(is_number)).collect();
    assert!(odd.is_empty(), "{odd:?}");
    for seconds in ["60", "60.0"] {
        let error = engine::new().eval::<rhai::Dynamic>(&format!("sleep({seconds})")).unwrap_err();
        let message = summary_of_run(&error);
        assert!(message.contains("write time::sleep(milliseconds)"), "{message}");
    }
}
