//! Ordinary scripts fail on no machine, however slow: operations end a call before its limit of processor time does.

use crate::host::TestHost;
use crate::upstream::Reply;
use futures::StreamExt;
use std::sync::Arc;
use valvehouse::context::Turn;
use valvehouse::filter::{Chain, Hook};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, SourceFile};

const REDACT: &str = include_str!("../../filters/redact.rhai");

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_redact_fails_no_request_and_no_first_call_of_a_version() {
    /// The number of requests to one version of the filter.
    const OF_A_VERSION: usize = 50;
    /// The number of requests at a time.
    const AT_A_TIME: usize = 8;
    let host = TestHost::new().filter("redact", REDACT).start().await;
    let words =
        "Write to ann@example.com from 10.1.2.3 about 4111 1111 1111 1111 and sk-0123456789abcdefghij. ";
    host.upstream.script(move |request| Reply::fitting(request, &words.repeat(4)));
    let (requests, mut failed) = (valvehouse_testkit::cases(200_usize), Vec::new());
    for version in 0..requests.div_ceil(OF_A_VERSION) {
        host.update("redact", &format!("{REDACT}\n// version {version}")).await;
        let all = futures::stream::iter(0..OF_A_VERSION).map(|number| {
            let host = &host;
            async move {
                match number % 2 {
                    0 => host.ask(words).await,
                    _ => host.stream(words).await,
                }
            }
        });
        let answers: Vec<_> = all.buffer_unordered(AT_A_TIME).collect().await;
        let wrong = answers.iter().filter(|it| it.status != 200 || it.body().contains("\"error\""));
        failed.extend(wrong.map(|answer| format!("{} {}", answer.status, answer.body())));
        let texts = answers.iter().filter(|it| it.status == 200).map(|answer| answer.text());
        let shown: Vec<_> =
            texts.filter(|text| text.contains("ann@") || !text.contains("[redacted]")).collect();
        assert!(shown.is_empty(), "{shown:?}");
    }
    assert!(failed.is_empty(), "{} of {}: {:.2000}", failed.len(), requests, failed.join("\n"));
}

/// Loops around functions of the host, each of which would run for minutes without a limit.
const LOOPS: [(&str, &str); 5] = [
    ("an empty loop", "()"),
    ("a search", "regex::is_match(s, \"[a-z]+[0-9]\")"),
    ("all matches", "regex::find_all(s, \"a b\")"),
    ("a replacement", "text::replace(s, \"b\", \"d\")"),
    ("lines", "text::lines(s)"),
];

#[tokio::test]
async fn operations_end_a_call_before_its_processor_time_does() {
    let mut wrong = Vec::new();
    for (what, code) in LOOPS {
        let text =
            format!("fn inlet(body) {{ let s = \"\"; s.pad(20_000, \"a b c \"); loop {{ {code}; }} }}");
        let file = SourceFile::new(Kind::Filter, "loops", "filters/loops.rhai", text);
        let script = Script::compile(&file, &Settings::default()).unwrap();
        let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
        let body = Json::parse(br#"{"messages":[]}"#).unwrap();
        let error = chain.run(Hook::Inlet, body, &Turn::default()).await.unwrap_err();
        if !error.to_string().contains("exceeded its limit of 1000000 operations") {
            wrong.push(format!("{what}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
