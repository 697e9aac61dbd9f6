//! Forms that pass a guard are read by four real parsers, and each reads what the guard saw.

use crate::host::{Answer, TestHost};
use crate::javascript::node;
use crate::python::python;
use crate::upstream::{MODEL, Reply};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const GUARD: &str = "/*\nsecurity: true\n*/\nconst endpoints = [\"images\"];\n\
    fn inlet(body) { for message in body.messages { if message.text.contains(\"BAD\") { deny(\"no\", 403); } } body }";

/// A form as a client sends it.
struct Form {
    kind: String,
    body: String,
}

fn form(body: impl Into<String>) -> Form {
    Form { kind: "multipart/form-data; boundary=x".into(), body: body.into() }
}

/// Returns the forms that servers read as one with a bad prompt although they hide it.
fn known() -> Vec<Form> {
    let model = format!("--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{MODEL}\r\n");
    let with = |head: &str, value: &str| form(format!("{model}--x\r\n{head}\r\n\r\n{value}\r\n--x--\r\n"));
    let named = |name: &str| with(&format!("Content-Disposition: form-data; {name}"), "BAD");
    let of_type = |parameters: &str| {
        let field = |name: &str, value: &str| {
            format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let decoy = format!("--x\r\n{}--x\r\n{}--x--\r\n", field("model", MODEL), field("prompt", "ok"));
        let real = format!("--y\r\n{}--y\r\n{}--y--\r\n", field("model", MODEL), field("prompt", "BAD"));
        Form { kind: format!("multipart/form-data; {parameters}"), body: [decoy, real].concat() }
    };
    vec![
        named("x=\";name=n;\"; name=\"prompt\""),
        with(
            "Content-Disposition: form-data; name=\"n\"\r\nContent-Disposition: form-data; name=\"prompt\"",
            "BAD",
        ),
        with("Content-Disposition: form-data;\r\n name=\"prompt\"", "BAD"),
        with("Content-Disposition: form-data; name=\"prompt\"\r\nContent-Transfer-Encoding: base64", "QkFE"),
        with(
            "Content-Disposition: form-data; name=\"prompt\"\r\nContent-Transfer-Encoding: quoted-printable",
            "B=41D",
        ),
        form(format!(
            "junk--x\r\nContent-Disposition: form-data; name=\"a\"\r\n{model}--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nBAD\r\n--x--\r\n"
        )),
        form(format!("{model}--x\r\nContent-Disposition: form-data; name=\"prompt\"\n\nBAD\r\n--x--\r\n")),
        form(format!(
            "{model}--x--\r\n--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nBAD\r\n--x--\r\n"
        )),
        of_type("a=\";boundary=x;\"; boundary=y"),
        of_type("boundary=x; boundary=y"),
        of_type("boundary=x; boundary*=utf-8''y"),
        named("name=\" prompt\""),
        named("name=\"Prompt\""),
        named("name=\"prompt[0]\""),
        named("name=\"prompt.text\""),
        named("name=\"prompt\0\""),
        with("Content-Disposition: form-data; name=\"prompt\"; filename=\"p.txt\"", "BAD"),
        with("Content-Disposition: form-data; name=\"Prompt\"; filename=\"p.txt\"", "BAD"),
        with(
            "Content-Disposition: form-data; name=\"image\"; filename=\"a.txt\"\r\nContent-Type: text/plain",
            "BAD",
        ),
        with(
            "Content-Disposition: form-data; name=\"image[]\"; filename=\"a.png\"\r\nContent-Type: image/png",
            "BAD",
        ),
        with(
            "Content-Disposition: form-data; name=\"prompt\"\r\nContent-Type: text/plain; charset=utf-7",
            "+AEIAQQBE-",
        ),
        with(
            "Content-Disposition: form-data; name=\"prompt\"\r\nContent-Type: application/json",
            "\"\\u0042AD\"",
        ),
        with(
            "Content-Disposition: form-data; name=\"prompt\"; filename=\"p\"\r\nContent-Type: application/x+json",
            "\"\\u0042AD\"",
        ),
        with(
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: multipart/mixed; boundary=y",
            "--y\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nBAD\r\n--y--",
        ),
        with(
            "Content-Disposition: form-data; name=\"a\"",
            "v\n--x\nContent-Disposition: form-data; name=\"prompt\"\n\nBAD",
        ),
    ]
}

/// Returns a form of parts that are usual or odd.
fn random(rng: &mut Rng) -> Form {
    let mut pick = |usual: &str, odd: &[&str]| match rng.u8(..10) {
        0 => odd[rng.usize(..odd.len())].to_owned(),
        _ => usual.to_owned(),
    };
    let kind = pick(
        "boundary=x",
        &[
            "boundary=\"x\"",
            "boundary=x; charset=utf-8",
            "Boundary=x",
            "boundary=x;boundary=y",
            "boundary=x; a=b",
        ],
    );
    let mut body = pick("", &["\r\n", "--", "junk\r\n", "--x--\r\n", "\n"]);
    let names = ["model", "prompt", "n", "image", "negative_prompt", "user"];
    for name in names {
        let value = match name {
            "model" => MODEL,
            "image" => "PNG\r\nbytes",
            _ => "a text",
        };
        let name = pick(
            name,
            &["prompt", "\"", "pro\\\"mpt", "pro%6Dpt", "prompt ", "PROMPT", "prompt[]", "é", "a\tb"],
        );
        let quote = pick("\"", &["", "'", " \""]);
        let end = pick("\r\n", &["\n", "\r\n\r\n", " \r\n", "\r"]);
        let disposition = pick(
            "Content-Disposition: form-data",
            &[
                "content-disposition:form-data",
                "Content-Disposition : form-data",
                "Content-Disposition: Form-Data",
                "Content-Disposition: attachment",
                "X-A: b\r\nContent-Disposition: form-data",
                "Content-Disposition: form-data; a=\"b;c\"",
            ],
        );
        let more = match name.as_str() {
            "image" => "; filename=\"a.png\"\r\nContent-Type: image/png".to_owned(),
            _ => pick(
                "",
                &[
                    "; filename=\"a;name=\\\"prompt\\\".txt\"",
                    "; filename*=UTF-8''a%22b.txt",
                    "; name=\"prompt\"",
                    ";",
                    "\r\nContent-Type: text/plain",
                    "\r\nContent-Length: 3",
                    "\r\n\tmore",
                    "\r\nContent-Type: text/plain; charset=utf-16",
                    "\r\nContent-Transfer-Encoding: 8bit",
                    "; filename=a b.txt",
                    "; filename=\"\"",
                ],
            ),
        };
        let value = pick(
            value,
            &["BAD", "", "a\n--x\nb", "a\r\n--x", "a\r\n --x--", "é€", "--x--", "\r\n", "a\r\n--xy\r\nb"],
        );
        let delimiter = pick("--x", &["--x ", "-- x", "--X", "--x\t", "--x--"]);
        body += &format!("{delimiter}{end}{disposition}; name={quote}{name}{quote}{more}\r\n\r\n{value}\r\n");
    }
    body += &pick("--x--\r\n", &["--x--", "--x--\r\nmore", "--x", "", "--x-- \r\n", "--x--\n"]);
    Form { kind: format!("multipart/form-data; {kind}"), body }
}

/// Sends a form, and returns it as a service received it if it passed.
async fn passed(host: &TestHost, form: &Form) -> Option<Value> {
    let seen = host.upstream.requests().len();
    let request = host.request("POST", "/v1/images/edits").header("content-type", &form.kind);
    let answer = Answer::of(request.body(form.body.clone())).await;
    assert!(matches!(answer.status, 200 | 400 | 403 | 404), "{} {}", answer.status, answer.body());
    let received = host.upstream.requests();
    assert_eq!(received.len() > seen, answer.status == 200, "{}", answer.body());
    let received = received.get(seen)?;
    let kind = received.headers["content-type"].to_str().unwrap();
    Some(json!({"type": kind, "body": STANDARD.encode(&received.body), "sent": form.body}))
}

/// Runs a reader of forms and returns its lines.
fn read_by(mut reader: Command, script: &str, forms: &Path) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let output = reader.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(forms).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the fields that a server read, in one order.
fn fields(read: &Value) -> Vec<Value> {
    let mut fields = read.as_array().unwrap_or_else(|| panic!("a server rejects a form")).clone();
    fields.sort_by_key(Value::to_string);
    fields
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_reads_a_passed_form_as_the_guard_did() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    let cases = valvehouse_testkit::cases(600);
    let mut rng = Rng::with_seed(7);
    let mut forms = known();
    forms.extend((0..cases).map(|_| random(&mut rng)));
    let mut received = Vec::new();
    for form in &forms {
        received.extend(passed(&host, form).await);
    }
    assert!(received.len() > cases / 50, "only {} of {} forms passed", received.len(), forms.len());
    let (Some(python), Some(node)) = (python(), node()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forms");
    std::fs::write(&file, received.iter().map(|form| format!("{form}\n")).collect::<String>()).unwrap();
    let in_python = read_by(Command::new(python), "tests/python/form_readers.py", &file);
    let in_node = read_by(node, "tests/javascript/form_readers.cjs", &file);
    assert_eq!((in_python.len(), in_node.len()), (received.len(), received.len()));
    for ((form, read), by_undici) in received.iter().zip(in_python).zip(in_node) {
        let by_undici = fields(&by_undici);
        let values =
            |fields: &[Value]| fields.iter().map(|it| (it[0].clone(), it[1].clone())).collect::<Vec<_>>();
        let mut all = by_undici.clone();
        for name in ["werkzeug", "django", "starlette"] {
            let fields = fields(&read[name]);
            assert_eq!(values(&fields), values(&by_undici), "{name} and undici read another form: {form}");
            all.extend(fields);
        }
        let unseen = all.iter().find(|field| field[1].as_str().unwrap().contains("BAD"));
        assert_eq!(unseen, None, "a service reads what the guard did not see: {form}");
    }
}

#[tokio::test]
async fn rejected_forms_say_what_is_wrong_with_them() {
    let host = TestHost::new().filter("guard", GUARD).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    for (index, form) in known().iter().enumerate() {
        let request = host.request("POST", "/v1/images/edits").header("content-type", &form.kind);
        let answer = Answer::of(request.body(form.body.clone())).await;
        match answer.status {
            400 => assert!(answer.message().starts_with("invalid form: "), "{index}: {}", answer.body()),
            status => assert_eq!(status, 403, "{index}: {}", answer.body()),
        }
    }
    assert!(host.upstream.requests().is_empty());
    let twice = format!("--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{MODEL}\r\n").repeat(2)
        + "--x--\r\n";
    let request =
        host.request("POST", "/v1/images/edits").header("content-type", "multipart/form-data; boundary=x");
    Answer::of(request.body(twice)).await.refused(400, "the form must name its model in one field `model`");
}
