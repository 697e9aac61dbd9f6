//! Conversion of changes of kv maps to and from JSON. Values are encoded as texts, so their nesting does not add up.

use crate::record::{KvChange, KvRow};
use crate::rows::json::encode;
use valvehouse_json::Json;

/// Encodes a kv change: a new `value`, a number to `add`, or `hits` in a window of `length` milliseconds.
/// Without any of them, the entry is deleted.
pub(super) fn change_to_json(change: &KvChange) -> Result<Json, sqlx::Error> {
    let of = |row: &KvRow, word: &'static str| -> Result<Json, sqlx::Error> {
        Ok(Json::from([
            ("plugin", row.plugin.as_str().into()),
            ("scope", row.scope.as_str().into()),
            ("key", row.key.as_str().into()),
            (word, encode(&row.value)?.into()),
            ("expires_at", row.expires_at.into()),
        ]))
    };
    Ok(match change {
        KvChange::Set(row) => of(row, "value")?,
        KvChange::Add(row) => of(row, "add")?,
        KvChange::Hits(row, length) => {
            let json = of(row, "hits")?;
            json.set("length", *length).expect("a new object takes any key");
            json
        }
        KvChange::Delete { plugin, scope, key } => Json::from([
            ("plugin", plugin.as_str().into()),
            ("scope", scope.as_str().into()),
            ("key", key.as_str().into()),
        ]),
    })
}

pub(super) fn change_from_json(json: &Json) -> Option<KvChange> {
    let (plugin, scope, key) = (text(json, "plugin")?, text(json, "scope")?, text(json, "key")?);
    let row = |word| {
        let (plugin, scope, key) = (plugin.clone(), scope.clone(), key.clone());
        Some(KvRow { plugin, scope, key, value: value(json, word)?, expires_at: time(json, "expires_at") })
    };
    match ["value", "add", "hits"].into_iter().find(|word| json.get(word).is_some()) {
        Some("value") => row("value").map(KvChange::Set),
        Some("add") => row("add").map(KvChange::Add),
        Some(hits) => Some(KvChange::Hits(row(hits)?, time(json, "length")?)),
        None => Some(KvChange::Delete { plugin, scope, key }),
    }
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.text(key).map(String::from)
}

fn time(json: &Json, key: &str) -> Option<i64> {
    json.get(key)?.as_i64()
}

fn value(json: &Json, key: &str) -> Option<Json> {
    Json::parse(json.text(key)?.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Span;
    use crate::record::{Aside, Fate, GuardChange, LastGood, StoredKey, StoredValves, Switch};
    use crate::scripts::{ScriptFile, ScriptSet};
    use crate::settings::StoredSettings;
    use crate::snapshot::content::Content;

    #[test]
    fn a_snapshot_is_read_back_completely() {
        let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
        let deep = json(&format!("{}1{}", "[".repeat(100), "]".repeat(100)));
        let content = Content {
            settings: StoredSettings {
                generation: 7,
                valves: vec![StoredValves {
                    plugin: "a".into(),
                    user: Some("ann".into()),
                    values: json(r#"{"big": 12345678901234567890123, "half": 1.50}"#),
                    is_plain: false,
                }],
                switches: vec![Switch {
                    plugin: "a".into(),
                    enabled: Some(false),
                    global: None,
                    audit: None,
                }],
                grants: vec![("a".into(), json(r#"{"http": ["x"]}"#))],
                confirmed: vec![
                    ("g".into(), GuardChange::Off),
                    ("g".into(), GuardChange::Change("ab".into())),
                ],
                last_good: vec![LastGood {
                    id: "g".into(),
                    path: "filters/g.rhai".into(),
                    hash: "h".into(),
                    source: "fn inlet(body) {}\n".into(),
                    imports: Json::Null,
                    security: true,
                    saved_at: -1,
                }],
                aside: vec![Aside { plugin: "a".into(), number: 3, fate: Fate::Dropped, has_rows: true }],
                guarded_models: vec![("g".into(), "m".into())],
                keys: vec![StoredKey {
                    name: "ci".into(),
                    digest: "sha256:00".into(),
                    rights: Json::from([("revoked_at", Json::Null)]),
                    used_at: None,
                }],
                scripts: Some(ScriptSet {
                    generation: 5,
                    at: 9,
                    by: "ci".into(),
                    manifest: "{}".into(),
                    signature: None,
                    restored_from: Some(2),
                }),
            },
            files: vec![ScriptFile { path: "filters/g.rhai".into(), text: "text".into() }],
            doubted: vec![("g".into(), "g.rhai".into(), "text".into())],
            spans: vec![Span { plugin: "g".into(), first_at: 1, last_at: 2, last: 3, is_gone: true }],
            kv: vec![KvRow {
                plugin: "a".into(),
                scope: "s".into(),
                key: "k".into(),
                value: deep,
                expires_at: Some(5),
            }],
        };
        let written = Json::from_serialize(&content).unwrap().to_string();
        assert_eq!(json(&written).to::<Content>().unwrap(), content);
        for key in json(&written).keys() {
            let lacking = json(&written);
            lacking.remove(&key);
            assert!(lacking.to::<Content>().is_err(), "without {key}");
        }
        let gone = KvChange::Delete { plugin: "a".into(), scope: "s".into(), key: "k".into() };
        let counted = KvRow {
            plugin: "a".into(),
            scope: "s".into(),
            key: "k".into(),
            value: 3_i64.into(),
            expires_at: Some(7),
        };
        for change in [gone, KvChange::Add(counted.clone()), KvChange::Hits(counted, 60_000)] {
            assert_eq!(change_from_json(&change_to_json(&change).unwrap()), Some(change));
        }
    }
}
