//! Conversion of a snapshot's content to and from JSON. Values are encoded as texts, so their nesting does
//! not add up.

use super::content::Content;
use crate::history::Span;
use crate::record::{Aside, Fate, GuardChange, KvChange, KvRow, LastGood, StoredKey, StoredValves, Switch};
use crate::rows::json::encode;
use crate::scripts::{ScriptFile, ScriptSet};
use crate::settings::StoredSettings;
use valvehouse_json::Json;

impl Content {
    pub(crate) fn to_json(&self) -> Result<Json, sqlx::Error> {
        let settings = &self.settings;
        let valves = settings.valves.iter().map(|row| {
            Ok(Json::from([
                ("plugin", row.plugin.as_str().into()),
                ("user", row.user.as_deref().into()),
                ("values", encode(&row.values)?.into()),
                ("plain", row.is_plain.into()),
            ]))
        });
        let switches = settings.switches.iter().map(|row| {
            Json::from([
                ("plugin", row.plugin.as_str().into()),
                ("enabled", row.enabled.into()),
                ("global", row.global.into()),
            ])
        });
        let grants = settings.grants.iter().map(|(id, grants)| {
            Ok(Json::from([("id", id.as_str().into()), ("grants", encode(grants)?.into())]))
        });
        let last_good = settings.last_good.iter().map(|row| {
            Ok(Json::from([
                ("id", row.id.as_str().into()),
                ("path", row.path.as_str().into()),
                ("hash", row.hash.as_str().into()),
                ("source", row.source.as_str().into()),
                ("imports", encode(&row.imports)?.into()),
                ("security", row.security.into()),
                ("saved_at", row.saved_at.into()),
            ]))
        });
        let keys = settings.keys.iter().map(|key| {
            Ok(Json::from([
                ("name", key.name.as_str().into()),
                ("digest", key.digest.as_str().into()),
                ("rights", encode(&key.rights)?.into()),
            ]))
        });
        let aside = settings.aside.iter().map(|one| {
            Json::from([
                ("plugin", one.plugin.as_str().into()),
                ("number", one.number.into()),
                ("fate", (one.fate as i64).into()),
                ("has_rows", one.has_rows.into()),
            ])
        });
        let confirmed = settings.confirmed.iter().map(|(id, what)| texts([id, what.as_str()]));
        let models = settings.guarded_models.iter().map(|(id, model)| texts([id, model]));
        let doubted = self.doubted.iter().map(|(id, place, text)| texts([id, place, text]));
        let files = self.files.iter().map(|file| texts([&file.path, &*file.text]));
        let spans = self.spans.iter().map(|span| {
            Json::from([
                ("plugin", span.plugin.as_str().into()),
                ("first_at", span.first_at.into()),
                ("last_at", span.last_at.into()),
                ("last", span.last.into()),
                ("is_gone", span.is_gone.into()),
            ])
        });
        let scripts = settings.scripts.as_ref().map(|set| {
            Json::from([
                ("generation", set.generation.into()),
                ("at", set.at.into()),
                ("by", set.by.as_str().into()),
                ("manifest", set.manifest.as_str().into()),
                ("signature", set.signature.as_deref().into()),
                ("restored_from", set.restored_from.into()),
            ])
        });
        let kv = self.kv.iter().map(|row| change_to_json(&KvChange::Set(row.clone())));
        Ok(Json::from([
            ("generation", settings.generation.into()),
            ("valves", valves.collect::<Result<Vec<_>, sqlx::Error>>()?.into()),
            ("switches", switches.collect::<Vec<_>>().into()),
            ("grants", grants.collect::<Result<Vec<_>, sqlx::Error>>()?.into()),
            ("confirmed", confirmed.collect::<Vec<_>>().into()),
            ("last_good", last_good.collect::<Result<Vec<_>, sqlx::Error>>()?.into()),
            ("aside", aside.collect::<Vec<_>>().into()),
            ("guarded_models", models.collect::<Vec<_>>().into()),
            ("keys", keys.collect::<Result<Vec<_>, sqlx::Error>>()?.into()),
            ("scripts", scripts.into()),
            ("files", files.collect::<Vec<_>>().into()),
            ("doubted", doubted.collect::<Vec<_>>().into()),
            ("spans", spans.collect::<Vec<_>>().into()),
            ("kv", kv.collect::<Result<Vec<_>, sqlx::Error>>()?.into()),
        ]))
    }

    /// Reads the content; `None` if any part is missing, because that part could be a guard.
    pub(crate) fn from_json(json: &Json) -> Option<Self> {
        let settings = StoredSettings {
            generation: number(json, "generation")?,
            valves: list(json, "valves", |row| {
                Some(StoredValves {
                    plugin: text(row, "plugin")?,
                    user: text(row, "user"),
                    values: value(row, "values")?,
                    is_plain: truth(row, "plain")?,
                })
            })?,
            switches: list(json, "switches", |row| {
                let (enabled, global) = (truth(row, "enabled"), truth(row, "global"));
                Some(Switch { plugin: text(row, "plugin")?, enabled, global })
            })?,
            grants: list(json, "grants", |row| Some((text(row, "id")?, value(row, "grants")?)))?,
            confirmed: list(json, "confirmed", |row| {
                let [id, what] = of_texts(row)?;
                Some((id, GuardChange::from(what)))
            })?,
            last_good: list(json, "last_good", |row| {
                Some(LastGood {
                    id: text(row, "id")?,
                    path: text(row, "path")?,
                    hash: text(row, "hash")?,
                    source: text(row, "source")?,
                    imports: value(row, "imports")?,
                    security: truth(row, "security")?,
                    saved_at: time(row, "saved_at")?,
                })
            })?,
            aside: list(json, "aside", |row| {
                Some(Aside {
                    plugin: text(row, "plugin")?,
                    number: number(row, "number")?,
                    fate: Fate::of(time(row, "fate")?),
                    has_rows: truth(row, "has_rows")?,
                })
            })?,
            guarded_models: list(json, "guarded_models", |row| {
                let [id, model] = of_texts(row)?;
                Some((id, model))
            })?,
            keys: list(json, "keys", |row| {
                let (name, digest) = (text(row, "name")?, text(row, "digest")?);
                Some(StoredKey { name, digest, rights: value(row, "rights")?, used_at: None })
            })?,
            scripts: match json.get("scripts")? {
                Json::Null => None,
                set => Some(ScriptSet {
                    generation: number(&set, "generation")?,
                    at: time(&set, "at")?,
                    by: text(&set, "by")?,
                    manifest: text(&set, "manifest")?,
                    signature: text(&set, "signature"),
                    restored_from: number(&set, "restored_from"),
                }),
            },
        };
        let files = list(json, "files", |file| {
            let [path, text] = of_texts(file)?;
            Some(ScriptFile { path, text: text.into() })
        })?;
        let doubted = list(json, "doubted", |row| {
            let [id, place, text] = of_texts(row)?;
            Some((id, place, text))
        })?;
        let spans = list(json, "spans", |span| {
            Some(Span {
                plugin: text(span, "plugin")?,
                first_at: time(span, "first_at")?,
                last_at: time(span, "last_at")?,
                last: number(span, "last")?,
                is_gone: truth(span, "is_gone")?,
            })
        })?;
        let kv = list(json, "kv", |row| match change_from_json(row)? {
            KvChange::Set(row) => Some(row),
            _ => None,
        })?;
        Some(Self { settings, files, doubted, spans, kv })
    }
}

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

fn texts<const N: usize>(texts: [&str; N]) -> Json {
    texts.map(Json::from).to_vec().into()
}

fn of_texts<const N: usize>(json: &Json) -> Option<[String; N]> {
    let texts: Option<Vec<String>> =
        json.as_array()?.items().iter().map(|item| item.as_str().map(str::to_owned)).collect();
    texts?.try_into().ok()
}

pub(super) fn list<T>(json: &Json, key: &str, read: impl Fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    json.get(key)?.as_array()?.items().iter().map(read).collect()
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.text(key).map(String::from)
}

fn truth(json: &Json, key: &str) -> Option<bool> {
    json.get(key)?.as_bool()
}

fn time(json: &Json, key: &str) -> Option<i64> {
    json.get(key)?.as_i64()
}

fn number(json: &Json, key: &str) -> Option<u64> {
    time(json, key)?.try_into().ok()
}

fn value(json: &Json, key: &str) -> Option<Json> {
    Json::parse(json.text(key)?.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
                switches: vec![Switch { plugin: "a".into(), enabled: Some(false), global: None }],
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
        let written = content.to_json().unwrap().to_string();
        assert_eq!(Content::from_json(&json(&written)), Some(content.clone()));
        for key in json(&written).keys() {
            let lacking = json(&written);
            lacking.remove(&key);
            assert_eq!(Content::from_json(&lacking), None, "without {key}");
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
