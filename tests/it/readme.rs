//! What the README shows works as it is shown.

use crate::kernel::*;
use std::sync::Arc;
use valvehouse::config::Config;
use valvehouse::script::{Script, Settings, SourceFile};

/// The README's code blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let fence = format!("```{language}\n");
    text.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_first_filter_signs_answers() {
    let [text] = blocks("rhai").try_into().unwrap();
    let file =
        SourceFile { id: "polite".into(), path: "filters/polite.rhai".into(), text: text.as_str().into() };
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    let (builder, model) = asking(["Good morning."]);
    let chatted = chat(&builder.filter(script.into_filter(Arc::default())).build(), "hello").await.unwrap();
    assert_eq!(chatted.text(), "Good morning.\n\n-- your assistant");
    assert_eq!(said(&model.requests()[0], "system"), ["Be polite."]);
}

#[test]
fn the_configuration_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let [toml] = blocks("toml").try_into().unwrap();
    std::fs::write(folder.path().join("valvehouse.toml"), toml).unwrap();
    let config = Config::load_with(folder.path(), [], &[]).unwrap();
    assert_eq!(config.providers[0].name, "openai");
}
