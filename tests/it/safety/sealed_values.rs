//! The stored form of the values that users set.

use crate::cli::Project;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use std::path::PathBuf;
use std::thread;
use valvehouse::store::Store;

const FILTER: &str = r#"
const Valves = #{ token: #{ value: "", secret: true }, limit: 4 };
const UserValves = #{ own: #{ value: "", secret: true } };
fn inlet(body) { body }
"#;
const SECRET: &str = "tok-4be1f7c2a9";

fn project() -> Project {
    Project::new().filter("turns", FILTER)
}

/// Returns the bytes of all files in the store's folder.
fn bytes_of(project: &Project) -> Vec<u8> {
    let files = std::fs::read_dir(project.path(".valvehouse")).unwrap();
    files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

fn holds(project: &Project, text: &str) -> bool {
    bytes_of(project).windows(text.len()).any(|window| window == text.as_bytes())
}

fn key_of(project: &Project) -> PathBuf {
    project.path(".valvehouse/state.key")
}

#[test]
fn stored_values_are_encrypted_on_disk_and_readable_by_the_next_command() {
    let project = project();
    project.run(&format!("valves set turns token={SECRET} limit=7")).ends(0);
    project.run(&format!("valves set turns own={SECRET} --user ann")).ends(0);
    assert!(!holds(&project, SECRET));
    project.run("valves get turns limit").ends(0).prints("7");
    project.run("valves get turns").ends(0).prints("***");
    project.run("valves get turns --user ann").ends(0).prints("stored");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(key_of(&project)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner reads the key");
    }
}

#[test]
fn a_lost_or_wrong_key_is_reported_and_does_not_reset_valves() {
    let project = project();
    project.run(&format!("valves set turns token={SECRET} limit=7")).ends(0);
    let key = std::fs::read_to_string(key_of(&project)).unwrap();
    let other = project.path("other.key");

    std::fs::remove_file(key_of(&project)).unwrap();
    for command in ["list", "valves get turns", "serve --port 0", "explain --model demo"] {
        project
            .run(command)
            .ends(69)
            .stderr_has("state.key")
            .stderr_has("is missing")
            .stderr_has("forget-valves");
    }
    assert!(!key_of(&project).exists(), "no other key is made in its place");

    std::fs::write(&other, key.trim().to_uppercase()).unwrap();
    let with_other = ["--set", "store.key=file:other.key"];
    project
        .run(&format!("list {}", with_other.join(" ")))
        .ends(69)
        .stderr_has("not the key")
        .stderr_has("forget-valves");
    std::fs::write(&other, "short").unwrap();
    project.run(&format!("list {}", with_other.join(" "))).ends(69).stderr_has("shorter than 32");
    project.run("list --set store.key=file:nowhere.key").ends(69).stderr_has("cannot read the secret");
    project.run("list --set store.key=env:NO_SUCH_KEY").ends(69).stderr_has("NO_SUCH_KEY is not set");
    std::fs::write(&other, &key).unwrap();
    project.run(&format!("valves get turns limit {}", with_other.join(" "))).ends(0).prints("7");

    std::fs::write(key_of(&project), &key).unwrap();
    project.run("store forget-valves").ends(69).stderr_has("key decrypts them");
    project.run("valves get turns limit").ends(0).prints("7");
}

#[test]
fn resetting_a_lost_key_drops_only_the_valves() {
    let project = project();
    project.run(&format!("valves set turns token={SECRET} limit=7")).ends(0);
    project.run("grant turns kv").ends(0);
    std::fs::remove_file(key_of(&project)).unwrap();
    project.run("store forget-valves").ends(0).prints("1 plugin");
    project.run("valves get turns limit").ends(0).prints("4");
    project.run("grant turns").ends(0).prints("kv");
    project.run("valves set turns limit=9").ends(0);
    project.run("valves get turns limit").ends(0).prints("9");
}

#[test]
fn concurrent_first_commands_create_one_key() {
    let project = project();
    thread::scope(|scope| {
        for limit in 1..=6 {
            let project = &project;
            scope.spawn(move || project.run(&format!("valves set turns limit={limit}")).ends(0));
        }
    });
    project.run("valves get turns limit").ends(0).prints("");
    let left: Vec<String> = std::fs::read_dir(project.path(".valvehouse"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("key"))
        .collect();
    assert_eq!(left, ["state.key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_values_of_an_earlier_version_are_sealed_and_erased() {
    let project = project();
    let file = project.path(".valvehouse/state.db");
    let store = Store::sqlite(&file).await.unwrap();
    let values = |text: &str| valvehouse::json::Json::parse(text.as_bytes()).unwrap();
    store.replace_valves("turns", None, &values(r#"{"limit":8}"#), "ann").await.unwrap();
    store.replace_valves("turns", Some("ann"), &values(r#"{"own":"x"}"#), "ann").await.unwrap();
    store.close().await;
    // The format of version 0.1.
    let plain = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await.unwrap();
    let content = format!(r#"{{"token":"{SECRET}","limit":8}}"#);
    for change in [
        "DELETE FROM sealing".to_owned(),
        format!("UPDATE valves SET content = '{content}' WHERE user_id IS NULL"),
        format!(r#"UPDATE valves SET content = '{{"own":"{SECRET}"}}' WHERE user_id IS NOT NULL"#),
        format!(
            "INSERT INTO versions (plugin, version, at, author, action, kind, place, valves)
             VALUES ('turns', 1, 0, 'ann', 'valves', 'filter', 'filters/turns.rhai', '{content}')"
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(change)).execute(&plain).await.unwrap();
    }
    plain.close().await;
    std::fs::remove_file(key_of(&project)).unwrap();
    assert!(holds(&project, SECRET));

    project.run("valves get turns limit").ends(0).prints("8");
    assert!(!holds(&project, SECRET), "not in unused pages either");
    let store = Store::sqlite(&file).await.unwrap();
    assert_eq!(store.valves("turns", Some("ann")).await.unwrap().text("own").as_deref(), Some(SECRET));
    assert_eq!(store.valves("turns", None).await.unwrap().text("token").as_deref(), Some(SECRET));
    store.close().await;
}

#[tokio::test]
async fn a_sealed_value_is_bound_to_its_plugin() {
    let project = project();
    project.run(&format!("valves set turns token={SECRET}")).ends(0);
    let file = project.path(".valvehouse/state.db");
    let plain = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await.unwrap();
    sqlx::query("UPDATE valves SET plugin = 'other'").execute(&plain).await.unwrap();
    plain.close().await;
    let store = Store::sqlite(&file).await.unwrap();
    let error = store.valves("other", None).await.unwrap_err();
    assert!(error.to_string().contains("changed by hand"), "{error}");
    assert!(error.to_string().contains("valves reset other"), "{error}");
    store.close().await;
}
