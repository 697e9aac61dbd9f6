//! Files, programs and variables, as the authors of scripts use them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_grants::{Grant, Grants};
use valvehouse_json::Json;
use valvehouse_script::{Kind, Script, Settings, SourceFile};

fn chain(code: &str, grants: Grants) -> Chain {
    chain_of(code, &Settings { grants, ..Settings::default() })
}

fn chain_of(code: &str, settings: &Settings) -> Chain {
    let text = format!("/*\nrequirements: files, shell, env\n*/\nfn inlet(body) {{ {code} }}");
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    let script = Script::compile(&file, settings).unwrap_or_else(|problems| panic!("{problems:?}"));
    Chain::new(vec![Arc::new(script).into_filter(Arc::default())])
}

fn grants(folder: &Path) -> Grants {
    Grants {
        files: vec![folder.to_owned()],
        shell: Grant::Only(vec!["sh".into(), "printf".into(), "sleep".into()]),
        env: Grant::Only(vec!["PATH".into(), "NOT_SET_ANYWHERE".into()]),
        ..Grants::default()
    }
}

/// Returns the code's `body.out`, or the message of its error.
async fn run(code: &str, folder: &Path) -> String {
    run_in(&chain(code, grants(folder))).await
}

async fn run_in(chain: &Chain) -> String {
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    match chain.run(Hook::Inlet, body, &Turn::default()).await {
        Ok(ChainOutcome::Done(body) | ChainOutcome::Skipped(body)) => {
            body.get("out").unwrap_or_default().to_string()
        }
        Err(error) => format!("{error:?}"),
    }
}

#[tokio::test]
async fn file_operations_count_as_run_time() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("a.txt"), "abc \n".repeat(1_000_000)).unwrap();
    // Each search takes a long time and next to none of the script's own thread.
    let code = "for i in 0..1_000 { files::grep(\"nothing\"); files::write(\"count\", `${i}`); }";
    let mut settings = Settings { grants: grants(&data), ..Settings::default() };
    settings.hook.time = Duration::from_millis(100);
    let answer = run_in(&chain_of(code, &settings)).await;
    assert!(answer.contains("exceeded its computing time"), "{answer}");
    let count = std::fs::read_to_string(data.join("count")).unwrap_or_default();
    assert!(count.is_empty() || count.parse::<u32>().unwrap() < 50, "{count}");
}

#[tokio::test]
async fn a_script_works_in_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let cases = [
        (r#"files::write("a.txt", "one\ntwo\n"); body.out = files::read("data/a.txt");"#, r#""one\ntwo\n""#),
        (
            r#"files::write("a.txt", "three\n", #{ append: true }); body.out = files::read("a.txt", 2, 3);"#,
            r#""two\nthree\n""#,
        ),
        (
            r#"files::write("x/y.md", "deep", #{ parents: true }); body.out = files::exists("x/y.md");"#,
            "true",
        ),
        (
            r#"body.out = [files::exists("none"), files::mkdir("z"), files::mkdir("z")];"#,
            "[false,true,false]",
        ),
        (
            r#"body.out = files::list().map(|e| [e.name, e.kind, e.size]);"#,
            r#"[["a.txt","file",14],["x","folder",null],["z","folder",null]]"#,
        ),
        (r#"body.out = files::list("x")[0].path;"#, r#""data/x/y.md""#),
        (r#"body.out = files::glob("**/*.md");"#, r#"["data/x/y.md"]"#),
        (
            r#"body.out = files::grep("t.o").map(|m| `${m.path}:${m.line}:${m.text}`);"#,
            r#"["data/a.txt:2:two"]"#,
        ),
        (r#"body.out = files::grep("e", "x").len();"#, "1"),
        (
            r#"try { files::read("none"); } catch (e) { body.out = e.message; }"#,
            r#""files::read: cannot read `data/none`: it does not exist""#,
        ),
        (
            r#"try { files::read("../x"); } catch (e) { body.out = e.message; }"#,
            r#""files::read: `../x` contains `..`: write the path without it""#,
        ),
        (
            r#"try { files::exists("/etc/passwd"); } catch (e) { body.out = e.message; }"#,
            r#""files::exists: `/etc/passwd` is outside of the granted folders: `data`; to allow it: valvehouse grant x files=FOLDER""#,
        ),
        (
            r#"let how = #{ apend: true }; try { files::write("a", "", how); } catch (e) { body.out = e.message.contains("unknown option `apend`; did you mean `append`?"); }"#,
            "true",
        ),
        (
            r#"try { files::write("a", "", 7); } catch (e) { body.out = e.message.contains("must be a map"); }"#,
            "true",
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(run(code, &data).await, expected, "{code}");
    }
    std::fs::write(data.join("large"), "0123456789\n".repeat(200_000)).unwrap();
    let message = run(r#"try { files::read("large"); } catch (e) { body.out = e.message; }"#, &data).await;
    assert!(message.contains("1 MiB, which ends with line 95325 of 200000"), "{message}");
}

#[tokio::test]
async fn a_script_runs_its_programs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    let cases = [
        (r#"body.out = shell::run(["printf", "%s-%s", "a b", 7]).stdout;"#, r#""a b-7""#),
        (
            r#"body.out = shell::run("echo a; echo b >&2; exit 3");"#,
            r#"{"exit_code":3,"stdout":"a\n","stderr":"b\n"}"#,
        ),
        (r#"body.out = shell::run("cat", #{ stdin: "in" }).stdout;"#, r#""in""#),
        (r#"body.out = shell::run("basename $PWD", #{ folder: "sub" }).stdout;"#, r#""sub\n""#),
        (r#"body.out = shell::run("echo x; sleep 600", #{ timeout: 200 }).timed_out;"#, "true"),
        (
            r#"try { shell::run(["git", "log"]); } catch (e) { body.out = e.message.contains("valvehouse grant x shell=git"); }"#,
            "true",
        ),
        (
            r#"let how = #{ time: 1 }; try { shell::run("ls", how); } catch (e) { body.out = e.message; }"#,
            r#""shell::run: unknown option `time`; the options are stdin, folder, timeout""#,
        ),
        (
            r#"try { shell::run("ls", #{ timeout: 0 }); } catch (e) { body.out = e.message.contains("600 000"); }"#,
            "true",
        ),
        (
            r#"try { shell::run([["a"]]); } catch (e) { body.out = e.message; }"#,
            r#""shell::run: `argv` must be an array of texts, not array""#,
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(run(code, dir.path()).await, expected, "{code}");
    }
}

#[tokio::test]
async fn a_script_reads_its_variables() {
    let dir = tempfile::tempdir().unwrap();
    let code = r#"body.out = [env::get("PATH").len() > 0, env::get("NOT_SET_ANYWHERE")];"#;
    assert_eq!(run(code, dir.path()).await, "[true,null]");
    let message = run(r#"env::get("HOME");"#, dir.path()).await;
    assert!(message.contains("valvehouse grant x env=HOME"), "{message}");
}

#[tokio::test]
async fn a_program_ends_with_the_turn_that_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let chain = chain(r#"shell::run("touch begun; sleep 600");"#, grants(dir.path()));
    let turn = Turn::default();
    let end = turn.until_dropped();
    let body = Json::parse(br#"{"messages":[]}"#).unwrap();
    let began = Instant::now();
    let running = tokio::spawn(async move { chain.run(Hook::Inlet, body, &turn).await.is_err() });
    while !dir.path().join("begun").exists() {
        assert!(began.elapsed() < Duration::from_secs(10), "never began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(end);
    assert!(running.await.unwrap(), "it went on");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn bytes_are_written_and_read_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let code = r#"files::write_bytes("b.bin", base64::decode_bytes("/wA=")); files::write_bytes("b.bin", "z", #{ append: true });
        let bytes = files::read_bytes("b.bin"); body.out = [bytes.hex(), type_of(bytes)];"#;
    assert_eq!(run(code, &data).await, r#"["ff007a","blob"]"#);
    let binary = run(r#"files::read("b.bin");"#, &data).await;
    assert!(binary.contains("b.bin"), "{binary}");
    std::fs::write(data.join("large.bin"), vec![0; (8 << 20) + 1]).unwrap();
    let large = run(r#"files::read_bytes("large.bin");"#, &data).await;
    assert!(large.contains("8388609 bytes exceed the limit of 8 MiB"), "{large}");
    let wrong = run(r#"files::write_bytes("b.bin", 5);"#, &data).await;
    assert!(wrong.contains("`data` must be a text or bytes, not number"), "{wrong}");
}
