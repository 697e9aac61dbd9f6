//! Sets of scripts: stored completely, never changed, and restored as new sets.

use super::*;

pub(super) async fn check<F: Future<Output = Store>>(fresh: &impl Fn() -> F) {
    a_set_comes_back_as_it_was_uploaded(&fresh().await).await;
    an_earlier_set_comes_back_as_a_new_one(&fresh().await).await;
    the_oldest_sets_are_dropped_with_their_texts(&fresh().await).await;
    all_settings_are_of_one_moment(&fresh().await).await;
}

fn file(path: &str, text: &str) -> ScriptFile {
    ScriptFile { path: path.to_owned(), text: text.into() }
}

async fn put(store: &Store, files: &[ScriptFile], signature: Option<&str>) -> u64 {
    let manifest = SetManifest::of(files, "0.1.0");
    store.put_script_set(&NewScriptSet { manifest: &manifest, files, signature, by: "ann" }).await.unwrap()
}

async fn a_set_comes_back_as_it_was_uploaded(store: &Store) {
    assert_eq!(store.script_sets().await.unwrap(), []);
    let files = [file("filters/a.rhai", "fn inlet(body) {}"), file("tools/größe.rhai", "// größe\n")];
    assert_eq!(put(store, &files, Some("signed")).await, 1);
    assert_eq!(store.generation().await.unwrap(), 1);
    assert_eq!(store.script_files(1).await.unwrap(), files);
    let sets = store.script_sets().await.unwrap();
    assert_eq!((sets[0].generation, sets[0].by.as_str(), sets[0].restored_from), (1, "ann", None));
    assert_eq!(sets[0].signature.as_deref(), Some("signed"));
    let manifest = SetManifest::parse(&sets[0].manifest).unwrap();
    assert_eq!(manifest, SetManifest::of(&files, "0.1.0"));
    assert_eq!(manifest.check(&files), Ok(()));
    for needs in ["", "abc", "1.2", "1.2.x", "1.2.3.4", "-1.2.3"] {
        let refused = SetManifest::parse(&SetManifest::of(&files, needs).text).unwrap_err().to_string();
        assert!(refused.contains("invalid version") && refused.contains("such as 1.2.3"), "{refused}");
    }
    assert!(SetManifest::parse(&SetManifest::of(&files, "1.2.3-beta.1").text).is_ok());
    let changed = [files[0].clone(), file("tools/größe.rhai", "// other\n")];
    assert!(
        manifest
            .check(&changed)
            .unwrap_err()
            .to_string()
            .contains("tools/größe.rhai does not match the hash")
    );
    assert!(manifest.check(&files[..1]).unwrap_err().to_string().contains("missing"));
    let more = [&files[..], &[file("filters/b.rhai", "")]].concat();
    assert!(manifest.check(&more).unwrap_err().to_string().contains("filters/b.rhai is not in its manifest"));
    assert_eq!(store.script_files(2).await.unwrap(), [], "there is no such set");
}

async fn an_earlier_set_comes_back_as_a_new_one(store: &Store) {
    let (first, second) = ([file("filters/a.rhai", "1")], [file("filters/b.rhai", "2")]);
    put(store, &first, Some("signed")).await;
    put(store, &second, None).await;
    assert_eq!(store.restore_script_set(7, "bob").await.unwrap(), None);
    assert_eq!(store.generation().await.unwrap(), 2, "nothing was changed");
    assert_eq!(store.restore_script_set(1, "bob").await.unwrap(), Some(3));
    assert_eq!(store.script_files(3).await.unwrap(), first);
    let sets = store.script_sets().await.unwrap();
    assert_eq!(sets.iter().map(|set| set.generation).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!((sets[0].restored_from, sets[0].by.as_str()), (Some(1), "bob"));
    assert_eq!(
        (&sets[0].manifest, sets[0].signature.as_deref()),
        (&sets[2].manifest, Some("signed")),
        "it is what was signed"
    );
}

async fn the_oldest_sets_are_dropped_with_their_texts(store: &Store) {
    let shared = file("filters/shared.rhai", "in all of them");
    for number in 0..MAX_SCRIPT_SETS + 2 {
        put(store, &[shared.clone(), file("filters/own.rhai", &format!("own {number}"))], None).await;
    }
    let sets = store.script_sets().await.unwrap();
    assert_eq!(sets.len() as u64, MAX_SCRIPT_SETS);
    assert_eq!(sets.last().unwrap().generation, 3);
    assert_eq!(store.script_files(2).await.unwrap(), []);
    let latest = store.script_files(MAX_SCRIPT_SETS + 2).await.unwrap();
    assert!(latest.contains(&shared) && latest.len() == 2, "{latest:?}");
}

async fn all_settings_are_of_one_moment(store: &Store) {
    put(store, &[file("filters/a.rhai", "1")], None).await;
    store.replace_valves("a", None, &json(r#"{"x": 1}"#), "test").await.unwrap();
    store.set_grants("a", Some(&json(r#"{"kv": true}"#)), None, "test").await.unwrap();
    let settings = store.settings().await.unwrap();
    assert_eq!(settings.generation, 3);
    assert_eq!(settings.valves[0].values, store.valves("a", None).await.unwrap());
    assert_eq!(settings.grants, store.grants().await.unwrap());
    assert_eq!(settings.scripts.unwrap().generation, 1);
}
