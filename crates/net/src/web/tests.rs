//! Tests of plugins that try to reach private networks in many ways, and of legitimate requests.

use super::fetch::next;
use super::{Ask, Lookup, MAX_ANSWER, MAX_ASKED, Web, WebError};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_grants::Grant;
use valvehouse_testkit::loopback::{Server, ok, redirect};

fn texts(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(ToString::to_string).collect()
}

fn granted(patterns: &[&str]) -> Grant {
    Grant::Only(texts(patterns))
}

fn web(granted: &Grant, declared: &[&str]) -> Web {
    Web::new(granted, &texts(declared)).unwrap()
}

async fn get(web: &Web, url: &str) -> Result<String, WebError> {
    let ask = Ask::new("GET", url)?.within(Duration::from_secs(20))?;
    let answer = web.ask(ask).await?;
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

async fn refusal(web: &Web, url: &str) -> String {
    match get(web, url).await {
        Ok(body) => panic!("{url:?} was answered: {body}"),
        Err(error) => error.to_string(),
    }
}

/// Returns `true` if an error says that the request was rejected before a connection.
fn is_refused(error: &str) -> bool {
    let reasons = [
        "which needs a grant that names",
        "invalid URL: ",
        "only http:// and https://",
        "contains a user name or password",
        "contains characters that are not valid in a host name",
        "is not one of the hosts that this plugin may reach",
        "its location is not a valid URL",
    ];
    reasons.iter().any(|reason| error.contains(reason))
}

/// Private addresses.
const INSIDE: [[u8; 4]; 8] = [
    [127, 0, 0, 1],
    [127, 0, 1, 1],
    [0, 0, 0, 0],
    [10, 0, 0, 1],
    [192, 168, 0, 1],
    [172, 16, 0, 1],
    [100, 64, 0, 1],
    [169, 254, 169, 254],
];

/// Returns notations of an IPv4 address that have been used to bypass checks.
fn spellings([a, b, c, d]: [u8; 4]) -> Vec<String> {
    let number = u32::from_be_bytes([a, b, c, d]);
    let (low3, low2) = (number & 0xff_ffff, number & 0xffff);
    let plain = format!("{a}.{b}.{c}.{d}");
    let digits = |zero: char| -> String {
        plain
            .chars()
            .map(|letter| match letter.to_digit(10) {
                Some(digit) => char::from_u32(zero as u32 + digit).unwrap(),
                None => letter,
            })
            .collect()
    };
    let circled: String = plain
        .chars()
        .map(|letter| match letter.to_digit(10) {
            Some(0) => '⓪',
            Some(digit) => char::from_u32('①' as u32 + digit - 1).unwrap(),
            None => letter,
        })
        .collect();
    vec![
        plain.clone(),
        format!("{plain}."),
        format!("{a}.{b}.{low2}"),
        format!("{a}.{low3}"),
        format!("{number}"),
        format!("{number}."),
        format!("{number:#x}"),
        format!("{number:#X}"),
        format!("0x{number:016x}"),
        format!("0{number:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("00000{a:o}.0{b:o}.{c}.{d}"),
        format!("{a:#x}.0{b:o}.{low2}"),
        format!("{a:#x}.{low3}"),
        format!("0{a:o}.{low3:#x}"),
        plain.replace('.', "%2e"),
        plain.replace('.', "。"),
        plain.replace('.', "．"),
        plain.replace('.', "｡"),
        plain.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        digits('０'),
        digits('𝟎'),
        digits('𝟬'),
        circled,
        format!("\u{ad}{plain}"),
        format!("{a}\t.{b}\n.{c}\r.{d}"),
        format!("[::ffff:{plain}]"),
        format!("[0:0:0:0:0:FFFF:{plain}]"),
        format!("[::ffff:{:x}:{low2:x}]", number >> 16),
        format!("[::{plain}]"),
        format!("[::ffff:0:{plain}]"),
        format!("[64:ff9b::{plain}]"),
        format!("[64:ff9b:1::{plain}]"),
        format!("[2002:{:x}:{low2:x}::1]", number >> 16),
        format!("[2606:4700::5efe:{plain}]"),
        format!("[2001:0:{:x}:{low2:x}::1]", number >> 16),
    ]
}

/// Hosts that are not one of these IPv4 addresses.
const OTHERS: &[&str] = &[
    "0",
    "0x0",
    "00",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "255.255.255.255",
    "224.0.0.1",
    "198.18.0.1",
    "192.0.0.192",
    "168.63.129.16",
    "100.100.100.200",
    "[::]",
    "[0:0:0:0:0:0:0:0]",
    "[::1]",
    "[0:0::0001]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::0.0.0.1]",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[FD00:EC2::254]",
    "[fd20:ce::254]",
    "[ff02::1]",
    "[v1.127.0.0.1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost..",
    "ｌｏｃａｌｈｏｓｔ",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "loc%61lhost",
    "loc\u{ad}alhost",
    "a.localhost",
    "localhost.localdomain",
    "evil.test",
    "EVIL.test.",
    "a.evil.test",
    "ｅvil.test",
    "127.0.0.1.evil.test",
    "six.evil.test",
    "mixed.evil.test",
    "cloud.evil.test",
    "mapped.evil.test",
    "metadata.google.internal",
    "user:pw@127.0.0.1",
    "example.com@127.0.0.1",
    "example.com%40@127.0.0.1",
    "@127.0.0.1",
    "127.0.0.1\\@example.com",
    "127.0.0.1#@example.com",
    "127.0.0.1?@example.com",
    "$(id).evil.test",
    "a_b;c.evil.test",
    "256.256.256.256",
    "127.0.0.1.0",
    "0x7f.1.",
    "0x100000000",
    "1e9",
    "",
];

/// A resolver of names that lead to private addresses.
fn evil_names() -> Lookup {
    Lookup::new(|name| async move {
        let found: &[&str] = match name.as_str() {
            "cloud.evil.test" | "metadata.google.internal" => &["169.254.169.254"],
            "six.evil.test" => &["::1"],
            "mapped.evil.test" => &["::ffff:127.0.0.1"],
            "mixed.evil.test" => &["3ffe::1", "127.0.0.1"],
            _ => &["127.0.0.1"],
        };
        Ok(found.iter().map(|address| address.parse().unwrap()).collect())
    })
}

fn evil_hosts() -> Vec<String> {
    let spelt = INSIDE.into_iter().flat_map(spellings);
    spelt.chain(OTHERS.iter().map(ToString::to_string)).collect()
}

/// Returns the most permissive access without a private host in a grant.
fn reaching_far() -> Vec<Web> {
    let declared = [
        "127.0.0.1",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "localhost",
        "*.localhost",
        "evil.test",
        "*.evil.test",
        "*.localdomain",
        "metadata.google.internal",
    ];
    [
        web(&Grant::Everything, &[]),
        web(&Grant::Everything, &declared),
        web(&granted(&["*.evil.test"]), &declared),
    ]
    .into_iter()
    .map(|web| web.looking_up(evil_names()))
    .collect()
}

#[tokio::test]
async fn no_notation_of_an_address_reaches_the_internal_network() {
    let victim = Server::start(|_| ok("secret")).await;
    let hosts = evil_hosts();
    assert!(hosts.len() >= 300, "{}", hosts.len());
    let mut wrong = Vec::new();
    for web in reaching_far() {
        for host in &hosts {
            for url in [format!("http://{host}:{}/", victim.port), format!("https://{host}/")] {
                let error = refusal(&web, &url).await;
                if !is_refused(&error) {
                    wrong.push(format!("{url:?}: {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(victim.hits(), 0);
    assert_eq!(get(&web(&granted(&["127.0.0.1"]), &[]), &victim.url("/")).await.unwrap(), "secret");
}

#[tokio::test]
async fn no_redirect_reaches_the_internal_network() {
    let victim = Server::start(|_| ok("secret")).await;
    let hosts = evil_hosts();
    let mut targets: Vec<String> =
        hosts.iter().map(|host| format!("http://{host}:{}/", victim.port)).collect();
    targets.extend(hosts.iter().map(|host| format!("//{host}:{}/", victim.port)));
    targets.extend(["file:///etc/passwd", "gopher://127.0.0.1/", "ftp://127.0.0.1/"].map(str::to_owned));
    // A text that is invalid in a header cannot be a redirect.
    targets.retain(|target| !target.contains(['\n', '\r']));
    let locations = targets.clone();
    let hop = Server::start(move |request| {
        let index = request.split(['/', ' ']).nth(2).unwrap().parse::<usize>().unwrap();
        redirect([301, 302, 303, 307, 308][index % 5], &locations[index])
    })
    .await;
    let name = format!("hop.test:{}", hop.port);
    let declared = ["127.0.0.1", "0.0.0.0", "10.0.0.1", "::1", "localhost", "evil.test", "*.evil.test"];
    let address = format!("127.0.0.1:{}", hop.port);
    let web = web(&granted(&[&name, &address]), &declared).looking_up(evil_names());
    let mut wrong = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let error = refusal(&web, &format!("http://{name}/{index}")).await;
        if !is_refused(&error) {
            wrong.push(format!("{target:?}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(hop.hits() > 0);
    assert_eq!(victim.hits(), 0);
}

#[tokio::test]
async fn dns_rebinding_is_blocked() {
    let victim = Server::start(|_| ok("secret")).await;
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = lookups.clone();
    // The first resolution is public without a route, the next one is private.
    let lookup = Lookup::new(move |_| {
        let address: IpAddr =
            if count.fetch_add(1, Relaxed) == 0 { "3ffe::1" } else { "127.0.0.1" }.parse().unwrap();
        async move { Ok(vec![address]) }
    });
    let web = web(&Grant::Everything, &[]).looking_up(lookup);
    let url = format!("http://rebind.test:{}/", victim.port);
    let first = Ask::new("GET", &url).unwrap().within(Duration::from_millis(500)).unwrap();
    assert!(!is_refused(&web.ask(first).await.unwrap_err().to_string()));
    assert_eq!(lookups.load(Relaxed), 1);
    assert!(is_refused(&refusal(&web, &url).await));
    assert_eq!(victim.hits(), 0);
}

#[tokio::test]
async fn a_granted_host_stays_blocked_for_other_plugins() {
    let server = Server::start(|_| ok("inside")).await;
    let (name, url) =
        (format!("intranet.corp:{}", server.port), format!("http://intranet.corp:{}/", server.port));
    let address = format!("127.0.0.1:{}", server.port);
    let trusted = web(&granted(&[&name, &address]), &[]).looking_up(evil_names());
    assert_eq!(get(&trusted, &url).await.unwrap(), "inside");
    for other in [
        web(&Grant::Everything, &[]),
        web(&granted(&["*.corp"]), &[]),
        web(&Grant::Nothing, &["intranet.corp"]),
        web(&granted(&[&name]), &[]),
        web(&granted(&["127.0.0.1:1"]), &["intranet.corp"]),
        web(&granted(&["https://127.0.0.1"]), &["intranet.corp"]),
        web(&granted(&["localhost"]), &["intranet.corp"]),
    ] {
        let error = refusal(&other.looking_up(evil_names()), &url).await;
        assert!(error.contains("the name `intranet.corp` resolves to a loopback address"), "{error}");
    }
    assert_eq!(server.hits(), 1);
}

#[tokio::test]
async fn a_granted_name_cannot_reach_cloud_metadata() {
    let web = web(&granted(&["cloud.evil.test"]), &[]).looking_up(evil_names());
    let error = refusal(&web, "http://cloud.evil.test/latest/meta-data/").await;
    assert!(error.contains("which needs a grant that names the address"), "{error}");
}

#[tokio::test]
async fn ordinary_urls_are_fetched() {
    let server = Server::start(|_| ok("hi")).await;
    let port = server.port;
    let named = format!("http://Bücher.test.:{port}/a b?q=ü#top");
    let web = web(&granted(&["127.0.0.1", "bücher.test", "localhost"]), &[]).looking_up(evil_names());
    for url in [
        server.url("/"),
        format!("HTTP://127.0.0.1:{port}"),
        format!("http://2130706433:{port}/"),
        format!("http://127.1:{port}/x?y=z"),
        format!("http://localhost:{port}/"),
        format!("http://LocalHost.:{port}/"),
        format!("http://xn--bcher-kva.test:{port}/"),
        named,
    ] {
        assert_eq!(get(&web, &url).await.unwrap_or_else(|error| panic!("{url}: {error}")), "hi");
    }
}

#[tokio::test]
async fn an_error_names_the_missing_grant_without_secrets() {
    let web = web(&granted(&["api.example.com", "*.example.net"]), &[]);
    let request = Ask::new("GET", "https://example.org:8443/bot/TOKEN?key=KEY").unwrap();
    let error = web.ask(request).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot request https://example.org:8443/…: the host `example.org:8443` is not one of the hosts that this plugin may reach (api.example.com, *.example.net)"
    );
    assert_eq!(error.grant(), Some("example.org:8443"));
    for url in ["https://ann:SECRET@example.org/", "SECRET", "ftp://ann:SECRET@example.org/", "data:SECRET"] {
        let error = refusal(&web, url).await;
        assert!(!error.contains("SECRET"), "{error}");
    }
    let error = refusal(&Web::default(), "http://10.0.0.1/").await;
    assert!(error.contains("may reach (none)"), "{error}");
}

#[tokio::test]
async fn a_redirect_drops_credentials_and_keeps_other_headers() {
    let last = Server::start(|request| ok(request.to_lowercase())).await;
    let to = format!("http://other.test:{}/end", last.port);
    let hop = Server::start(move |request| {
        let status = request.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if request.contains("/stay") {
            return ok(request.to_lowercase());
        }
        let to = if request.contains("/same") { "/1/stay" } else { &to };
        redirect(status, to)
    })
    .await;
    let web = web(&granted(&["hop.test", "other.test", "127.0.0.1"]), &[]).looking_up(evil_names());
    let ask = |path: &str| {
        let url = format!("http://hop.test:{}{path}", hop.port);
        let mut ask = Ask::new("POST", &url).unwrap();
        for (name, value) in
            [("authorization", "Bearer KEY"), ("cookie", "a=KEY"), ("x-api-key", "KEY"), ("accept", "a/b")]
        {
            ask = ask.header(name, value).unwrap();
        }
        ask.body("payload".into(), "text/x").unwrap()
    };
    for (status, method, body) in [
        (301, "get", false),
        (302, "get", false),
        (303, "get", false),
        (307, "post", true),
        (308, "post", true),
    ] {
        let answer = web.ask(ask(&format!("/{status}"))).await.unwrap();
        let seen = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(seen.starts_with(&format!("{method} /end ")), "{status}: {seen}");
        assert_eq!(seen.ends_with("payload"), body, "{status}: {seen}");
        assert_eq!(seen.contains("content-type: text/x"), body, "{status}: {seen}");
        assert!(seen.contains("accept: a/b") && !seen.contains("key"), "{status}: {seen}");
        let answer = web.ask(ask(&format!("/{status}/same"))).await.unwrap();
        let seen = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(seen.contains("x-api-key: key") && seen.contains("cookie: a=key"), "{status}: {seen}");
    }
}

#[test]
fn a_redirect_from_https_to_http_is_not_followed() {
    let ask = Ask::new("GET", "https://a.test/x").unwrap();
    let answer = |to: &str| {
        let answer = axum::http::Response::builder().status(302).header("location", to).body("").unwrap();
        next(&ask, &answer.into())
    };
    let error = answer("http://a.test/y").unwrap_err().to_string();
    assert!(error.contains("from https:// to unencrypted http://"), "{error}");
    assert_eq!(answer("/y").unwrap().unwrap().url.as_str(), "https://a.test/y");
    assert_eq!(answer("//b.test/y").unwrap().unwrap().url.as_str(), "https://b.test/y");
}

#[tokio::test]
async fn redirects_are_limited() {
    let hop = Server::start(|request| {
        let left: u32 = request.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if left == 0 { ok("there") } else { redirect(302, &format!("/{}", left - 1)) }
    })
    .await;
    let web = web(&granted(&["127.0.0.1"]), &[]);
    assert_eq!(get(&web, &hop.url("/5")).await.unwrap(), "there");
    let error = refusal(&web, &hop.url("/6")).await;
    assert!(error.contains("exceeded its limit of 5 redirects"), "{error}");
}

#[tokio::test]
async fn a_response_over_the_limit_is_an_error_compressed_or_not() {
    let server = Server::start(|request| {
        if request.contains("/fits") { ok(vec![b'x'; MAX_ANSWER]) } else { ok(vec![b'x'; MAX_ANSWER + 1]) }
    })
    .await;
    let web = web(&granted(&["127.0.0.1"]), &[]);
    assert_eq!(get(&web, &server.url("/fits")).await.unwrap().len(), MAX_ANSWER);
    let error = refusal(&web, &server.url("/")).await;
    assert!(error.contains("exceeded its limit of 2 MiB"), "{error}");
}

#[tokio::test]
async fn a_decompression_bomb_is_not_unpacked_completely() {
    let bomb = gzip_of_zeros(32);
    assert!(bomb.len() < MAX_ANSWER / 8);
    let server = Server::start(move |_| {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len());
        [head.as_bytes(), &bomb].concat()
    })
    .await;
    let error = refusal(&web(&granted(&["127.0.0.1"]), &[]), &server.url("/")).await;
    assert!(error.contains("exceeded its limit of 2 MiB when decompressed"), "{error}");
}

/// Returns a gzip of this number of mebibytes of zeros: one literal, then repetitions of 258 bytes.
fn gzip_of_zeros(mebibytes: usize) -> Vec<u8> {
    let mut bits: Vec<bool> = vec![true, true, false];
    // The fixed codes: the literal 0 is 00110000, the length 258 is 11000101, the distance 1 is 00000.
    let code = |text: &str| text.bytes().map(|byte| byte == b'1').collect::<Vec<_>>();
    bits.extend(code("00110000"));
    for _ in 0..(mebibytes << 20) / 258 {
        bits.extend(code("1100010100000"));
    }
    bits.extend(code("0000000"));
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    bytes.extend(
        bits.chunks(8)
            .map(|byte| byte.iter().enumerate().fold(0, |sum, (place, bit)| sum | u8::from(*bit) << place)),
    );
    bytes
}

#[tokio::test]
async fn a_slow_server_times_out() {
    let server = Server::silent().await;
    let ask = Ask::new("GET", &server.url("/")).unwrap().within(Duration::from_secs(1)).unwrap();
    let error = web(&granted(&["127.0.0.1"]), &[]).ask(ask).await.unwrap_err().to_string();
    assert!(error.contains("did not complete its response within 1 s"), "{error}");
    assert_eq!(server.hits(), 1);
}

#[test]
fn an_invalid_request_is_an_error() {
    let ask = || Ask::new("get", "http://a.test/").unwrap();
    let header = |name: &str, value: &str| ask().header(name, value).unwrap_err().to_string();
    for name in
        ["Host", "content-length", "Transfer-Encoding", "connection", "Proxy-Authorization", "upgrade", "te"]
    {
        let error = header(name, "x");
        assert!(error.contains("is set by the host"), "{error}");
    }
    assert!(header("x\r\ny", "x").contains("invalid header name"));
    let error = header("x-key", "KEY\r\nhost: b");
    assert!(error.contains("visible ASCII") && !error.contains("KEY"), "{error}");
    assert!(header("x", &"y".repeat(20_000)).contains("exceeded their limit"));
    let mut many = Ok(ask());
    for number in 0..65 {
        many = many.and_then(|ask: Ask| ask.header(&format!("x-{number}"), ""));
    }
    assert!(many.unwrap_err().to_string().contains("limit of 64 headers"));
    assert!(ask().body(vec![0; MAX_ASKED + 1].into(), "a/b").unwrap_err().to_string().contains("8192 KiB"));
    assert!(ask().within(Duration::ZERO).is_err() && ask().within(Duration::from_secs(301)).is_err());
    assert!(Ask::new("CONNECT", "http://a.test/").unwrap_err().to_string().contains("expected one of GET"));
    let long = format!("http://a.test/{}", "x".repeat(20_000));
    assert!(Ask::new("GET", &long).unwrap_err().to_string().contains("exceeded its limit"));
    assert_eq!(ask().query("a=b").query("c=%20d").url.as_str(), "http://a.test/?a=b&c=%20d");
}

#[test]
fn invalid_host_patterns_are_listed() {
    let wrong = Web::new(&granted(&["ok.test", "a b"]), &texts(&["x/y", "fine.test"])).unwrap_err().problems;
    assert_eq!(wrong.len(), 2);
    assert!(
        wrong[0].1.starts_with("in the grant of `http`, `a b`") && wrong[1].1.starts_with("`x/y`"),
        "{wrong:?}"
    );
}
