//! The examples of the README and of the manual work as shown.

use crate::kernel::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse::agent::middleware::{Middleware, Parts};
use valvehouse::breaker::BreakerSettings;
use valvehouse::config::{Config, KINDS, RetrySettings, Timeouts};
use valvehouse::context::{Context, Turn};
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, ModelDefaults};
use valvehouse::provider::Reply;
use valvehouse::script::{Kind, Pipes, Script, Settings, SourceFile};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The pages in reading order.
const PAGES: [&str; 4] = ["README.md", "docs/scripts.md", "docs/providers.md", "docs/agents.md"];

fn page(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// Returns the code blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let text = PAGES.map(page).concat();
    let fence = format!("```{language}\n");
    text.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// The scripts: the first filter, the one with `match`, the one against searches, the one with a window, the
/// model, the tool and the action.
fn scripts() -> [String; 7] {
    blocks("rhai").try_into().unwrap()
}

#[tokio::test]
async fn the_readme_filter_with_match_removes_names_across_chunks() {
    let [_, text, ..] = scripts();
    let file = SourceFile::new(Kind::Filter, "names", "filters/names.rhai", text.as_str());
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    let (builder, _) = asking(["Alice met Bob."]);
    let chatted = chat(&builder.filter(script.into_filter(Arc::default())).build(), "who?").await.unwrap();
    assert_eq!(chatted.text(), "A. met B..");
}

#[tokio::test]
async fn the_first_readme_filter_signs_answers() {
    let [text, ..] = scripts();
    let file = SourceFile::new(Kind::Filter, "polite", "filters/polite.rhai", text.as_str());
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    let (builder, model) = asking(["Good morning."]);
    let chatted = chat(&builder.filter(script.into_filter(Arc::default())).build(), "hello").await.unwrap();
    assert_eq!(chatted.text(), "Good morning.\n\n-- your assistant");
    assert_eq!(texts_by_role(&model.requests()[0], "system"), ["Be polite."]);
}

#[tokio::test]
async fn the_readme_search_filter_removes_hosted_searches_and_rejects_forced_ones() {
    let [_, _, text, ..] = scripts();
    let file = SourceFile::new(Kind::Filter, "no_search", "filters/no_search.rhai", text.as_str());
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    let (builder, model) = asking(["done"]);
    let kernel = builder.filter(script.into_filter(Arc::default())).build();
    let ask = async |choice: &str| {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"tool_choice":{choice},
            "tools":[{{"type":"web_search"}},{{"type":"function","function":{{"name":"f"}}}}]}}"#
        );
        run(&kernel, request(json(&body)), Turn::default(), false).await.answer
    };
    assert!(ask("\"auto\"").await.is_ok());
    let tools = model.requests()[0].field("tools");
    assert_eq!(tools.to_string(), r#"[{"type":"function","function":{"name":"f"}}]"#);
    let refused = ask(r#"{"type":"web_search"}"#).await.unwrap_err().to_string();
    assert!(refused.contains("searching the web is not allowed here"), "{refused}");
}

#[tokio::test]
async fn the_readme_window_finds_keys_across_chunks() {
    let [_, _, _, text, ..] = scripts();
    let file = SourceFile::new(Kind::Filter, "keys", "filters/keys.rhai", text.as_str());
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    let pieces = Reply::chunks(["It is sk-01234", "5678901234567890", "12345, keep it."]);
    let kernel = asking([pieces]).0.filter(script.into_filter(Arc::default())).build();
    assert_eq!(stream(&kernel).await.text(), "It is [key], keep it.|stop");
}

#[tokio::test]
async fn the_readme_pipe_counts_down() {
    let [.., text, _, _] = scripts();
    let file = SourceFile::new(Kind::Filter, "countdown", "filters/countdown.rhai", text.as_str());
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    assert_eq!(
        (script.offers()[0].id.as_str(), script.offers()[0].name.as_str()),
        ("countdown", "Countdown")
    );
    let pipes = Pipes::new(script.into_pipe(Arc::default()).into_iter().collect());
    let settings = ModelDefaults { model: Some("countdown".into()), ..ModelDefaults::default() };
    let kernel = Kernel::builder().provider(Arc::new(pipes)).settings(settings).build();
    assert_eq!(stream(&kernel).await.text(), "3 … 2 … 1 … lift-off|stop");
}

#[test]
fn the_readme_action_has_a_button() {
    let [.., text] = scripts();
    let file = SourceFile::new(Kind::Action, "words", "actions/words.rhai", text.as_str());
    let script = Script::compile(&file, &Settings::default()).unwrap();
    let buttons: Vec<&str> = script.buttons().iter().map(|button| button.id.as_str()).collect();
    assert_eq!(buttons, ["words"]);
}

#[tokio::test]
async fn the_readme_tool_rolls_dice_and_counts_them() {
    let [.., text, _] = scripts();
    let file = SourceFile::new(Kind::Tool, "dice", "tools/dice.rhai", text.as_str());
    let script = Arc::new(Script::compile(&file, &Settings::default()).unwrap());
    let kernel = Kernel::builder().tools(script.tools(&Arc::default()).into_iter().map(|it| it.tool)).build();
    let rolled =
        kernel.invoke("dice", json(r#"{"count": "3", "sides": 2}"#), &Context::default()).await.unwrap();
    let rolls: Vec<i64> = rolled.value.at_path("rolls").items().iter().filter_map(Json::as_i64).collect();
    assert!(rolls.len() == 3 && rolls.iter().all(|roll| (1..=2).contains(roll)), "{rolls:?}");
    assert_eq!(rolled.value.get("sum"), Some(rolls.iter().sum::<i64>().into()));
    assert_eq!(rolled.context.get("rolled"), Some(3_i64.into()));
    let refused = kernel.invoke("dice", json(r#"{"count": 1000}"#), &rolled.context).await.unwrap_err();
    assert!(refused.to_string().contains("`count`"), "{refused}");
}

#[test]
fn the_readme_configuration_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    // All fragments in one file.
    std::fs::write(folder.path().join("valvehouse.toml"), blocks("toml").concat()).unwrap();
    let config = Config::load_with(folder.path(), [], &[]).unwrap();
    assert_eq!(config.providers[0].name, "openai");
    assert_eq!(config.models[0].tools, ["dice", "tag:weather", "todo_add"]);
    let model = |name: &str| config.models.iter().find(|model| model.name == name).unwrap();
    assert_eq!(config.fallbacks(model("steady")).len(), 2);
    assert!(model("clerk").memory && Middleware::preset(model("helper").preset.as_ref().unwrap()).is_some());
    let approval = model("helper").middleware.get("human_approval").unwrap();
    Middleware::of("human_approval", &approval, &Parts::default()).unwrap();
    let groq = &config.providers[1];
    // The defaults on the page are the real defaults.
    assert_eq!((groq.retry, groq.breaker), (RetrySettings::default(), BreakerSettings::default()));
    assert_eq!(Timeouts { total: None, ..groq.timeouts }, Timeouts::default());
    let text = page("docs/providers.md");
    let words: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
    assert!(KINDS.iter().all(|kind| words.contains(&kind.name)), "each kind is named");
}

#[test]
fn the_page_of_providers_has_the_rules_of_services() {
    let table = valvehouse_wire::service::markdown();
    assert!(page("docs/providers.md").ends_with(&table), "docs/providers.md must end with:\n{table}");
    let lost = valvehouse_wire::left_out::markdown();
    assert!(page("docs/providers.md").contains(&lost), "docs/providers.md must contain:\n{lost}");
}

#[test]
fn the_readme_fits_on_two_screens() {
    assert!(page("README.md").lines().count() <= 150);
}

/// Returns the anchors of a page's headings, as GitHub generates them.
fn anchors(page: &str) -> Vec<String> {
    let heading = |line: &str| {
        let title = line.starts_with('#').then(|| line.trim_start_matches('#').trim().to_lowercase())?;
        let kept = title.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        Some(kept.collect::<String>().replace(' ', "-"))
    };
    page.lines().filter_map(heading).collect()
}

#[test]
fn every_link_of_every_page_leads_to_a_file_and_a_heading() {
    let top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(PathBuf::from);
    let files = |folder: &str| {
        let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path().strip_prefix(ROOT).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut wrong = Vec::new();
    for path in top.into_iter().chain(files("docs")).chain(files("docs/guide")) {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = page(path.to_str().unwrap());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => Path::new(ROOT).join(&path),
                file => Path::new(ROOT).join(path.parent().unwrap()).join(file),
            };
            let leads = match std::fs::read_to_string(&target) {
                Ok(text) if !anchor.is_empty() => anchors(&text).iter().any(|known| known == anchor),
                _ => target.exists(),
            };
            if !leads {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_packaged_systemd_units_equal_the_documented_ones() {
    let running = page("docs/running.md");
    let units: Vec<&str> =
        running.split("```ini\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(units, ["service", "socket"].map(|kind| page(&format!("packaging/valvehouse.{kind}"))));
}
