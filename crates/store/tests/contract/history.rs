//! The contract of the history.

use super::*;
use std::sync::Arc;

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_file_is_written_down_once_however_often_it_is_seen(&fresh().await).await;
    of_many_files_each_is_written_down_like_a_single_one(&fresh().await).await;
    what_was_found_before_a_version_came_to_be_is_not_written_down_after_it(&fresh().await).await;
    each_change_of_settings_is_a_version(&fresh().await).await;
    what_users_set_for_themselves_is_no_version(&fresh().await).await;
    an_edit_is_one_version_with_all_that_it_sets(&fresh().await).await;
    what_a_host_saw_first_gets_the_name_of_who_did_it(&fresh().await).await;
    what_is_gone_can_come_back(&fresh().await).await;
    a_long_history_loses_its_oldest_versions_and_their_texts(&fresh().await).await;
    histories_say_from_when_to_when_they_go(&fresh().await).await;
}

fn source(text: &str) -> Source {
    Source::new("filter", "deep/a.rhai", text)
}

fn seen(plugin: &str, text: Option<&str>) -> SeenFile {
    SeenFile { plugin: plugin.into(), source: text.map(source), at: i64::MAX }
}

fn edit<'a>(source: &'a Source, settings: Option<SettingsEdit<'a>>) -> Edit<'a> {
    let file = FileEdit::Becomes(source);
    Edit { plugin: "a", by: "ann", action: Action::Update, since: 0, file, settings }
}

/// Returns the changes and their authors, newest first.
async fn history_of_a(store: &Store) -> Vec<(u64, String, &'static str)> {
    let versions = store.history("a").await.unwrap();
    versions.into_iter().map(|version| (version.number, version.by, version.action.as_str())).collect()
}

async fn a_file_is_written_down_once_however_often_it_is_seen(store: &Store) {
    let text = "\u{feff}fn a() {}\r\n  \n";
    for _ in 0..3 {
        store.record(&[seen("a", Some(text)), seen("never", None)]).await.unwrap();
    }
    let versions = store.history("a").await.unwrap();
    assert_eq!(history_of_a(store).await, [(1, "file".to_owned(), "file")]);
    let hash = versions[0].hash.clone().unwrap();
    assert_eq!(hash, valvehouse_store::hash(text));
    assert_eq!((versions[0].kind.as_str(), versions[0].place.as_str()), ("filter", "deep/a.rhai"));
    assert_eq!(store.source(&hash).await.unwrap().as_deref(), Some(text), "byte for byte");
    assert_eq!(store.history("never").await.unwrap(), []);
    assert_eq!(store.source("another").await.unwrap(), None);
    assert_eq!(store.generation().await.unwrap(), 0, "what was seen is not a change");
    store.record(&[seen("a", Some("other"))]).await.unwrap();
    store.record(&[seen("a", Some(text))]).await.unwrap();
    assert_eq!(
        history_of_a(store).await.len(),
        3,
        "what was there before comes back as a version of its own"
    );
}

/// Two hosts watch one folder: the slower one reports a state that the other has replaced long ago.
async fn what_was_found_before_a_version_came_to_be_is_not_written_down_after_it(store: &Store) {
    store.record(&[seen("a", Some("one")), seen("b", Some("one"))]).await.unwrap();
    let at = store.history("a").await.unwrap()[0].at;
    let early = |plugin: &str, text| SeenFile { at, ..seen(plugin, text) };
    let found =
        [early("a", Some("zero")), early("b", None), early("c", Some("one")), early("a", Some("one"))];
    assert_eq!(store.record(&found).await.unwrap(), ["a", "b"], "somebody has to look again");
    assert_eq!(store.history("a").await.unwrap().len(), 1);
    assert_eq!(store.history("b").await.unwrap().len(), 1);
    assert_eq!(store.history("c").await.unwrap().len(), 1, "of it nothing was known");
    let later = SeenFile { at: at + 1, ..seen("a", Some("two")) };
    assert!(store.record(&[later]).await.unwrap().is_empty());
    assert_eq!(store.history("a").await.unwrap().len(), 2);
}

async fn of_many_files_each_is_written_down_like_a_single_one(store: &Store) {
    let valves = json(r#"{"x": 1}"#);
    store.replace_valves("p7", None, &valves, "ann").await.unwrap();
    store.replace_valves("p8", Some("ann"), &valves, "ann").await.unwrap();
    let off = Switch { plugin: "p9".into(), enabled: Some(false), global: None, audit: None };
    store.set_switch(&off, "ann").await.unwrap();
    let all = |changed: usize| -> Vec<SeenFile> {
        let text = |index| if index == changed { "other".to_owned() } else { format!("text {}", index / 2) };
        (0..200).map(|index| seen(&format!("p{index}"), Some(&text(index)))).collect()
    };
    for _ in 0..2 {
        store.record(&all(200)).await.unwrap();
    }
    let newest = async |plugin: &str| store.history(plugin).await.unwrap().remove(0);
    let spans = store.spans().await.unwrap();
    assert_eq!(spans.len(), 200);
    assert!(spans.iter().all(|span| span.last == 1), "what is as it was is not a version");
    assert_eq!(newest("p7").await.valves, valves);
    assert_eq!((newest("p8").await.valves, newest("p9").await.enabled), (Json::object(), Some(false)));
    assert_eq!(store.source(&hash("text 99")).await.unwrap().as_deref(), Some("text 99"));
    let mut some = all(150);
    some[151].source = None;
    some.push(seen("p150", Some("once more")));
    store.record(&some).await.unwrap();
    let numbers = [newest("p149").await, newest("p150").await, newest("p151").await];
    assert_eq!(
        numbers.map(|version| (version.number, version.hash.is_some())),
        [(1, true), (3, true), (2, false)]
    );
}

async fn each_change_of_settings_is_a_version(store: &Store) {
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "early").await.unwrap();
    assert_eq!(store.history("a").await.unwrap(), [], "nothing is known of it yet");
    store.record(&[seen("a", Some("one"))]).await.unwrap();
    store.merge_valves("a", None, &json(r#"{"y": 2}"#), "ann").await.unwrap();
    store.replace_valves("a", None, &json(r#"{"x": 1, "y": 2}"#), "bob").await.unwrap();
    store.reset_valves("a", None, &["x".to_owned()], "cid").await.unwrap();
    let off = Switch { plugin: "a".into(), enabled: Some(false), global: None, audit: None };
    store.set_switch(&off, "dee").await.unwrap();
    store.set_grants("a", Some(&json(r#"{"kv": true}"#)), None, "fay").await.unwrap();
    store.confirm_removal("a", "eve").await.unwrap();
    store.confirm_removal("a", "eve").await.unwrap();
    let all = [
        (6, "eve".to_owned(), "delete"),
        (5, "fay".to_owned(), "grant"),
        (4, "dee".to_owned(), "toggle"),
        (3, "cid".to_owned(), "valves"),
        (2, "ann".to_owned(), "valves"),
        (1, "file".to_owned(), "file"),
    ];
    assert_eq!(history_of_a(store).await, all, "what changes nothing is not a version");
    let versions = store.history("a").await.unwrap();
    let valves: Vec<String> = versions.iter().map(|version| version.valves.to_string()).collect();
    let y = r#"{"y":2}"#;
    assert_eq!(valves, [y, y, y, y, r#"{"x":1,"y":2}"#, r#"{"x":1}"#]);
    assert_eq!((versions[0].hash.as_deref(), versions[0].enabled), (None, Some(false)));
    assert_eq!((versions[2].hash.is_some(), versions[3].enabled), (true, None));
}

async fn what_users_set_for_themselves_is_no_version(store: &Store) {
    store.record(&[seen("a", Some("one"))]).await.unwrap();
    store.replace_valves("a", Some("ann"), &json(r#"{"x": 1}"#), "ann").await.unwrap();
    store.record(&[seen("a", Some("one"))]).await.unwrap();
    assert_eq!(history_of_a(store).await.len(), 1);
}

async fn an_edit_is_one_version_with_all_that_it_sets(store: &Store) {
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "ann").await.unwrap();
    let (one, two) = (source("one"), source("two"));
    let first = store.edit(&edit(&one, None)).await.unwrap();
    let valves = json(r#"{"z": 3}"#);
    let settings = SettingsEdit { valves: &valves, enabled: None, global: Some(false), audit: None };
    let second = store.edit(&edit(&two, Some(settings))).await.unwrap();
    assert_eq!(second, first + 1, "hosts are notified");
    assert_eq!(store.valves("a", None).await.unwrap(), valves);
    assert_eq!(store.settings().await.unwrap().switches[0].global, Some(false));
    let versions = store.history("a").await.unwrap();
    assert_eq!(versions.len(), 2);
    assert_eq!((versions[0].valves.to_string(), versions[0].global), (r#"{"z":3}"#.to_owned(), Some(false)));
    assert_eq!((versions[1].valves.to_string(), versions[1].global), (r#"{"x":1}"#.to_owned(), None));
    let nobody = SettingsEdit { valves: &Json::object(), enabled: None, global: None, audit: None };
    store.edit(&edit(&one, Some(nobody))).await.unwrap();
    assert_eq!(store.settings().await.unwrap().switches, [], "as if it had never been set");
    store.record(&[seen("a", Some("one"))]).await.unwrap();
    assert_eq!(history_of_a(store).await.len(), 3, "the file is what the edit says");
}

async fn what_a_host_saw_first_gets_the_name_of_who_did_it(store: &Store) {
    let (one, two) = (source("one"), source("two"));
    store.record(&[seen("a", Some("one"))]).await.unwrap();
    store.edit(&Edit { since: i64::MAX, ..edit(&one, None) }).await.unwrap();
    assert_eq!(history_of_a(store).await, [(1, "file".to_owned(), "file")], "it was there before");
    let since = now();
    store.record(&[seen("a", Some("two"))]).await.unwrap();
    store.edit(&Edit { since, ..edit(&two, None) }).await.unwrap();
    assert_eq!(history_of_a(store).await[0], (2, "ann".to_owned(), "update"));
    assert_eq!(history_of_a(store).await.len(), 2);
}

async fn what_is_gone_can_come_back(store: &Store) {
    let one = source("one");
    store.record(&[seen("a", Some("one"))]).await.unwrap();
    store.save_last_good(&[version("a", "1", true)]).await.unwrap();
    let nobody = SettingsEdit { valves: &Json::object(), enabled: None, global: None, audit: None };
    let goes = Edit { action: Action::Delete, file: FileEdit::Goes, ..edit(&one, Some(nobody)) };
    store.edit(&goes).await.unwrap();
    assert_eq!(store.last_good().await.unwrap(), [], "also a guard may go then");
    store.record(&[seen("a", None)]).await.unwrap();
    let gone = &store.history("a").await.unwrap()[0];
    assert_eq!((gone.number, gone.hash.as_deref(), gone.place.as_str()), (2, None, "deep/a.rhai"));
    assert!(store.spans().await.unwrap()[0].is_gone);
    store.edit(&Edit { action: Action::Rollback, ..edit(&one, None) }).await.unwrap();
    assert_eq!(history_of_a(store).await[0], (3, "ann".to_owned(), "rollback"));
    assert!(!store.spans().await.unwrap()[0].is_gone);
    store.record(&[seen("a", None)]).await.unwrap();
    assert_eq!(history_of_a(store).await[0], (4, "file".to_owned(), "delete"));
}

async fn a_long_history_loses_its_oldest_versions_and_their_texts(store: &Store) {
    let text =
        |number: u64| if number.is_multiple_of(2) { "even".to_owned() } else { format!("text {number}") };
    for number in 1..=MAX_VERSIONS + 3 {
        store.record(&[seen("a", Some(&text(number)))]).await.unwrap();
    }
    let versions = store.history("a").await.unwrap();
    assert_eq!(versions.len() as u64, MAX_VERSIONS);
    assert_eq!((versions[0].number, versions.last().unwrap().number), (MAX_VERSIONS + 3, 4));
    let kept = async |text: &str| store.source(&hash(text)).await.unwrap().is_some();
    assert!(!kept("text 1").await && !kept("text 3").await, "nobody names them any more");
    assert!(kept("text 5").await && kept("even").await);
}

async fn histories_say_from_when_to_when_they_go(store: &Store) {
    let began = now();
    let two: Arc<[SeenFile]> = Arc::new([seen("b", Some("b")), seen("a", Some("a"))]);
    store.record(&two).await.unwrap();
    store.record(&[seen("b", Some("c"))]).await.unwrap();
    let spans = store.spans().await.unwrap();
    let found: Vec<_> = spans.iter().map(|span| (span.plugin.as_str(), span.last, span.is_gone)).collect();
    assert_eq!(found, [("a", 1, false), ("b", 2, false)], "by id");
    assert!(spans.iter().all(|span| began <= span.first_at && span.first_at <= span.last_at));
}
