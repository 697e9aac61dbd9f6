//! The modules of all engines, each created once.

use super::{
    base64, chats, csv, documents, env, files, hash, html, http, json, jwt, kv, llm, memories, python,
    random, regex, sequences, shell, stream, text, time, tokens, tools, turn, uploads, url, values, vectors,
    waiting, xlsx,
};
use rhai::{Module, Shared, exported_module};
use std::sync::OnceLock;

/// Returns the modules with a name, such as `regex::`; for `Engine::register_static_module`.
pub fn modules() -> &'static [(&'static str, Shared<Module>)] {
    static MODULES: OnceLock<Vec<(&'static str, Shared<Module>)>> = OnceLock::new();
    MODULES.get_or_init(|| {
        let themes = [
            ("base64", exported_module!(base64::functions)),
            ("csv", exported_module!(csv::functions)),
            ("hash", exported_module!(hash::functions)),
            ("html", exported_module!(html::functions)),
            ("json", exported_module!(json::functions)),
            ("jwt", exported_module!(jwt::functions)),
            ("random", exported_module!(random::functions)),
            ("regex", exported_module!(regex::functions)),
            ("stream", exported_module!(stream::functions)),
            ("text", exported_module!(text::functions)),
            ("time", exported_module!(time::functions)),
            ("tokens", exported_module!(tokens::functions)),
            ("url", exported_module!(url::functions)),
            ("xlsx", exported_module!(xlsx::functions)),
        ];
        let of_the_turn = [
            ("log", turn::log()),
            ("http", http::module()),
            ("kv", kv::module()),
            ("llm", llm::module()),
            ("tools", tools::module()),
            ("models", turn::models()),
            ("files", files::module()),
            ("shell", shell::module()),
            ("env", env::module()),
            ("vectors", vectors::module()),
            ("memories", memories::module()),
            ("chats", chats::module()),
            ("uploads", uploads::module()),
            ("documents", documents::module()),
        ];
        themes.into_iter().chain(of_the_turn).map(|(name, module)| (name, ready(name, module))).collect()
    })
}

/// Returns the functions without a module, such as `uuid()`; for `Engine::register_global_module`.
pub(crate) fn globals() -> Shared<Module> {
    static GLOBALS: OnceLock<Shared<Module>> = OnceLock::new();
    let module = || {
        let mut module = exported_module!(values::functions);
        module.combine(exported_module!(waiting::functions));
        module.combine(exported_module!(sequences::functions));
        module.combine(exported_module!(python::functions));
        http::register_method(&mut module);
        ready("values", module)
    };
    GLOBALS.get_or_init(module).clone()
}

/// Names and indexes a module, so that engines share it; an engine copies a module without a name or index.
fn ready(name: &str, mut module: Module) -> Shared<Module> {
    module.set_id(name);
    module.build_index();
    module.into()
}
