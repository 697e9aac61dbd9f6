//! Tests of the tools that access files and programs, called as a model calls them.

use super::{GUARDED, file, shell};
use std::path::Path;
use valvehouse_config::{Grant, Grants};
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Tool, ToolError};
use valvehouse_json::Json;

fn tools(grants: &Grants) -> Vec<Tool> {
    let granted = |_: &str| grants.clone();
    file::tools(&granted).into_iter().chain(shell::tools(&granted)).collect()
}

fn in_folder(path: &Path) -> Grants {
    Grants {
        files: vec![path.to_owned()],
        shell: Grant::Only(vec!["sh".into(), "cat".into()]),
        ..Grants::default()
    }
}

async fn call(tools: &[Tool], name: &str, args: &str) -> Result<String, ToolError> {
    let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
    let result = tool.invoke(Json::parse(args.as_bytes()).unwrap(), &Turn::default()).await?;
    Ok(result.value.to_string())
}

#[test]
fn only_granted_builtin_tools_are_offered() {
    let names = |tools: Vec<Tool>| tools.iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>();
    assert!(tools(&Grants::default()).is_empty());
    let all = names(tools(&in_folder(Path::new("/srv/data"))));
    assert_eq!(all, GUARDED.map(|(name, _)| name));
    let one = |name: &str| match name {
        "file_read" => in_folder(Path::new("/srv/data")),
        _ => Grants::default(),
    };
    assert_eq!(names(file::tools(&one)), ["file_read"]);
    assert!(shell::tools(&one).is_empty());
}

#[test]
fn tool_descriptions_name_the_granted_folders_and_programs() {
    for tool in tools(&in_folder(Path::new("/srv/data"))) {
        let expected = if tool.name() == "shell_exec" { "sh, cat." } else { "The folders are: `data`." };
        assert!(tool.spec.description.ends_with(expected), "{}", tool.spec.description);
        let tag = if tool.name() == "shell_exec" { "shell" } else { "file" };
        assert_eq!(tool.spec.tags, [tag]);
    }
}

#[tokio::test]
async fn a_model_works_in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let tools = tools(&in_folder(&data));
    let cases = [
        ("file_mkdir", r#"{"path":"data/sub"}"#, r#"{"path":"data/sub","created":true}"#),
        (
            "file_write",
            r#"{"path":"sub/a.md","text":"one\ntwo\n"}"#,
            r#"{"path":"data/sub/a.md","bytes":8,"created":true}"#,
        ),
        (
            "file_write",
            r#"{"path":"sub/a.md","text":"three\n","append":true}"#,
            r#"{"path":"data/sub/a.md","bytes":6,"created":false}"#,
        ),
        (
            "file_read",
            r#"{"path":"data/sub/a.md","first_line":2}"#,
            r#"{"path":"data/sub/a.md","text":"two\nthree\n","first_line":2,"last_line":3,"total_lines":3,"cut":false}"#,
        ),
        (
            "file_list",
            r#"{}"#,
            r#"{"path":"data","entries":[{"name":"sub","path":"data/sub","kind":"folder"}],"cut":false}"#,
        ),
        (
            "file_read",
            r#"{"path":"data/sub/a.md","first_line":"3","last_line":null}"#,
            r#"{"path":"data/sub/a.md","text":"three\n","first_line":3,"last_line":3,"total_lines":3,"cut":false}"#,
        ),
        ("file_glob", r#"{"pattern":"**/*.md"}"#, r#"{"paths":["data/sub/a.md"],"cut":false}"#),
        (
            "file_grep",
            r#"{"pattern":"TWO|(?i)TWO","context":1}"#,
            r#"{"matches":[{"path":"data/sub/a.md","line":2,"text":"two","before":["one"],"after":["three"]}],"files":1,"skipped":0,"cut":false}"#,
        ),
        (
            "shell_exec",
            r#"{"argv":["cat","a.md"],"folder":"data/sub","command":null,"timeout_ms":null}"#,
            r#"{"exit_code":0,"stdout":"one\ntwo\nthree\n","stderr":""}"#,
        ),
        (
            "shell_exec",
            r#"{"command":"cat; exit 3","stdin":"in"}"#,
            r#"{"exit_code":3,"stdout":"in","stderr":""}"#,
        ),
        (
            "shell_exec",
            r#"{"command":"echo a; sleep 600","timeout_ms":200}"#,
            r#"{"exit_code":null,"stdout":"a\n","stderr":"","signal":9,"timed_out":true}"#,
        ),
    ];
    for (name, args, expected) in cases {
        let result = call(&tools, name, args).await.unwrap_or_else(|error| panic!("{name} {args}: {error}"));
        assert_eq!(result, expected, "{name} {args}");
    }
}

#[tokio::test]
async fn a_denied_tool_call_names_the_missing_grant() {
    let dir = tempfile::tempdir().unwrap();
    let tools = tools(&in_folder(dir.path()));
    let cases = [
        ("file_read", r#"{"path":"/etc/passwd"}"#, "valvehouse grant file_read files=FOLDER"),
        ("file_read", r#"{}"#, "path"),
        ("file_read", r#"{"path":"../x"}"#, "without it"),
        ("file_write", r#"{"path":"a/b","text":""}"#, "create it first"),
        ("file_grep", r#"{"pattern":"(?=x)"}"#, "look-around"),
        ("shell_exec", r#"{"argv":["git","log"]}"#, "valvehouse grant shell_exec shell=git"),
        ("shell_exec", r#"{}"#, "missing `argv`"),
        ("shell_exec", r#"{"argv":["sh"],"command":"x"}"#, "together"),
    ];
    for (name, args, words) in cases {
        let error = call(&tools, name, args).await.unwrap_err().message;
        assert!(error.contains(words), "{name} {args}: {error}");
    }
}
