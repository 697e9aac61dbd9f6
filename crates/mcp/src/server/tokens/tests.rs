//! Tests of [`TokenChecker`] with a real issuer on the loopback interface, real keys, and forged tokens.

use super::{HeldToken, TokenChecker, TokenRejection};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use valvehouse_config::{Introspection, ResourceServer, SecretSource};
use valvehouse_testkit::loopback::Server;

const RESOURCE: &str = "https://house.example/mcp";

/// A key of an issuer.
enum Key {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    fn ec() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
        Self::Ec(key.unwrap())
    }

    fn ed() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn published(&self, name: &str) -> Value {
        match self {
            Self::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": name, "x": text(x), "y": text(y) })
            }
            Self::Ed(key) => {
                let x = text(key.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": name, "x": x })
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ec(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, header: Value, claims: &Value) -> String {
        let message = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        format!("{message}.{}", text(self.sign(message.as_bytes())))
    }
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An issuer that publishes these keys, and counts the requests for them.
struct Issuer {
    server: Server,
    keys: Arc<Mutex<Vec<Value>>>,
    looks: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl Issuer {
    async fn start(keys: Vec<Value>) -> Self {
        let (keys, looks) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
        let is_away = Arc::new(AtomicBool::new(false));
        let (published, counted, away) = (keys.clone(), looks.clone(), is_away.clone());
        let server = Server::start(move |request| {
            if away.load(Relaxed) {
                return b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_vec();
            }
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let is_metadata =
                |path: &str| request.starts_with(&format!("GET {path}/.well-known/openid-configuration "));
            let body = if is_metadata("") || is_metadata("/tenant") {
                json!({ "issuer": format!("http://{host}"), "jwks_uri": format!("http://{host}/keys") })
            } else if request.starts_with("GET /keys ") {
                counted.fetch_add(1, Relaxed);
                json!({ "keys": *published.lock() })
            } else {
                return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec();
            };
            let body = body.to_string();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        })
        .await;
        Self { server, keys, looks, is_away }
    }

    fn name(&self) -> String {
        self.server.url("")
    }

    fn claims(&self) -> Value {
        json!({ "iss": self.name(), "sub": "ann", "aud": RESOURCE, "exp": now() + 600, "scope": "tools more" })
    }

    fn tokens(&self) -> TokenChecker {
        tokens(&[self.name()])
    }
}

fn tokens(issuers: &[String]) -> TokenChecker {
    let settings = ResourceServer {
        authorization_servers: issuers.to_vec(),
        resource: RESOURCE.parse().unwrap(),
        scopes: vec!["tools".into()],
        user_claim: "sub".into(),
        mcp_tools: None,
        introspection: None,
    };
    TokenChecker::new(&settings).unwrap()
}

fn with(claims: &Value, key: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[key] = value;
    claims
}

fn without(claims: &Value, key: &str) -> Value {
    let mut claims = claims.clone();
    claims.as_object_mut().unwrap().remove(key);
    claims
}

#[tokio::test]
async fn a_token_of_an_issuer_names_its_user() {
    let (ec, ed) = (Key::ec(), Key::ed());
    let unreadable = json!({ "kty": "new", "kid": "later" });
    let issuer = Issuer::start(vec![unreadable, ec.published("one"), ed.published("two")]).await;
    let tokens = issuer.tokens();
    let claims = with(&issuer.claims(), "name", json!("Ann"));
    let first = tokens.check(&ec.token(json!({ "alg": "ES256", "kid": "one" }), &claims)).await.unwrap();
    assert_eq!(first.user.text("id").as_deref(), Some("ann"));
    assert_eq!(first.user.text("name").as_deref(), Some("Ann"));
    assert_eq!(first.user.field("scopes").to_string(), r#"["tools","more"]"#);
    let claims = with(&without(&claims, "scope"), "scp", json!(["tools"]));
    let claims = with(&claims, "aud", json!(["other", RESOURCE]));
    let second = tokens.check(&ed.token(json!({ "alg": "EdDSA", "kid": "two" }), &claims)).await.unwrap();
    assert_eq!(first.owner, second.owner);
    let few = with(&claims, "scp", json!(["more"]));
    let refused = tokens.check(&ed.token(json!({ "alg": "EdDSA", "kid": "two" }), &few)).await.unwrap_err();
    assert_eq!(refused, TokenRejection::Scopes(vec!["tools".into()]));
    assert_eq!(issuer.looks.load(Relaxed), 1);
}

#[tokio::test]
async fn the_same_name_of_two_issuers_is_two_users() {
    let key = Key::ec();
    let (one, two) =
        (Issuer::start(vec![key.published("k")]).await, Issuer::start(vec![key.published("k")]).await);
    let tokens = tokens(&[one.name(), two.name()]);
    let header = json!({ "alg": "ES256", "kid": "k" });
    let first = tokens.check(&key.token(header.clone(), &one.claims())).await.unwrap();
    let second = tokens.check(&key.token(header, &two.claims())).await.unwrap();
    assert_ne!(first.user.text("id"), second.user.text("id"));
    assert_ne!(first.owner, second.owner);
}

#[tokio::test]
async fn a_token_for_another_host_or_time_is_rejected() {
    let (own, thief) = (Key::ec(), Key::ec());
    let published = own.published("k");
    let ed = Key::ed();
    let issuer = Issuer::start(vec![published.clone(), ed.published("ed")]).await;
    let (tokens, good) = (issuer.tokens(), issuer.claims());
    let header = json!({ "alg": "ES256", "kid": "k" });
    let signed = |claims: Value| own.token(header.clone(), &claims);
    assert!(tokens.check(&signed(good.clone())).await.is_ok());

    let unsigned = format!("{}.{}.", text(r#"{"alg":"none","kid":"k"}"#), text(good.to_string()));
    // The public key is used as the secret of an HMAC.
    let message = format!("{}.{}", text(r#"{"alg":"HS256","kid":"k"}"#), text(good.to_string()));
    let Key::Ec(pair) = &own else { unreachable!() };
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, pair.public_key().as_ref());
    let confused = format!("{message}.{}", text(ring::hmac::sign(&secret, message.as_bytes())));
    let valid = signed(good.clone());
    let (head, tail) = (valid.split('.').next().unwrap(), valid.rsplit('.').next().unwrap());
    let changed = format!("{head}.{}.{tail}", text(with(&good, "sub", json!("root")).to_string()));
    let own_key = json!({ "alg": "ES256", "jwk": thief.published("k"), "kid": "k" });
    let cases = [
        ("alg none", unsigned),
        ("alg None", format!("{}.{}.", text(r#"{"alg":"None"}"#), text(good.to_string()))),
        ("a HMAC", confused),
        ("another's signature", thief.token(header.clone(), &good)),
        ("a key in the header", thief.token(own_key, &good)),
        ("a changed claim", changed),
        ("no signature", format!("{head}.{}.", text(good.to_string()))),
        ("another audience", signed(with(&good, "aud", json!("https://other.example/mcp")))),
        ("no audience", signed(without(&good, "aud"))),
        ("an empty audience", signed(with(&good, "aud", json!([])))),
        ("expired", signed(with(&good, "exp", json!(now() - 60)))),
        ("no end", signed(without(&good, "exp"))),
        ("an end that is a text", signed(with(&good, "exp", json!("tomorrow")))),
        ("a negative end", signed(with(&good, "exp", json!(-1)))),
        ("not yet", signed(with(&good, "nbf", json!(now() + 600)))),
        ("another issuer", signed(with(&good, "iss", json!("https://evil.example")))),
        ("no issuer", signed(without(&good, "iss"))),
        ("several issuers", signed(with(&good, "iss", json!([issuer.name()])))),
        ("no user", signed(without(&good, "sub"))),
        ("an empty user", signed(with(&good, "sub", json!("")))),
        ("a user that is a number", signed(with(&good, "sub", json!(7)))),
        ("an unknown key", own.token(json!({ "alg": "ES256", "kid": "other" }), &good)),
        ("one of several keys", own.token(json!({ "alg": "ES256" }), &good)),
        ("a key of another kind", own.token(json!({ "alg": "ES256", "kid": "ed" }), &good)),
        ("an extension", own.token(json!({ "alg": "ES256", "kid": "k", "crit": ["b64"] }), &good)),
        ("too long", signed(with(&good, "more", json!("x".repeat(20_000))))),
        ("four parts", format!("{valid}.{tail}")),
        ("no token", "sk-guess".into()),
        ("nothing", String::new()),
    ];
    for (case, token) in cases {
        let refused = tokens.check(&token).await;
        assert!(
            matches!(refused, Err(TokenRejection::Invalid(_) | TokenRejection::Foreign(_))),
            "{case}: {refused:?}"
        );
    }
    assert!(tokens.check(&valid).await.is_ok());
}

#[tokio::test]
async fn many_unknown_keys_cause_one_request_to_the_issuer() {
    let key = Key::ec();
    let issuer = Issuer::start(vec![key.published("k")]).await;
    let tokens = issuer.tokens();
    let flood = (0..200).map(|number| {
        let token = key.token(json!({ "alg": "ES256", "kid": format!("k{number}") }), &issuer.claims());
        let tokens = &tokens;
        async move { tokens.check(&token).await }
    });
    for refused in futures::future::join_all(flood).await {
        assert!(matches!(refused, Err(TokenRejection::Invalid(_))), "{refused:?}");
    }
    assert_eq!(issuer.looks.load(Relaxed), 1);
    let valid = key.token(json!({ "alg": "ES256", "kid": "k" }), &issuer.claims());
    assert!(tokens.check(&valid).await.is_ok());
}

#[tokio::test]
async fn new_keys_are_fetched_and_known_keys_stay_valid_while_the_issuer_is_down() {
    let (old, new) = (Key::ec(), Key::ec());
    let issuer = Issuer::start(vec![old.published("old")]).await;
    let tokens = issuer.tokens();
    let of = |key: &Key, name: &str| key.token(json!({ "alg": "ES256", "kid": name }), &issuer.claims());
    assert!(tokens.check(&of(&old, "old")).await.is_ok());
    *issuer.keys.lock() = vec![new.published("new")];
    assert!(tokens.check(&of(&new, "new")).await.is_err());
    pass(Duration::from_secs(11)).await;
    assert!(tokens.check(&of(&new, "new")).await.is_ok());
    // A key is invalid after its issuer removed it.
    assert!(tokens.check(&of(&old, "old")).await.is_err());
    let late = of(&new, "new");
    issuer.is_away.store(true, Relaxed);
    pass(Duration::from_secs(2 * 3_600)).await;
    assert!(tokens.check(&late).await.is_ok());
    pass(Duration::from_secs(24 * 3_600)).await;
    assert!(matches!(tokens.check(&late).await, Err(TokenRejection::Unavailable(_))));
}

#[tokio::test]
async fn metadata_of_another_issuer_is_rejected() {
    let key = Key::ec();
    let issuer = Issuer::start(vec![key.published("k")]).await;
    // The metadata of the same server under another name belongs to another issuer.
    let tokens = tokens(&[format!("{}/tenant", issuer.name())]);
    let claims = with(&issuer.claims(), "iss", json!(tokens.settings().authorization_servers[0]));
    let refused = tokens.check(&key.token(json!({ "alg": "ES256", "kid": "k" }), &claims)).await;
    assert!(matches!(refused, Err(TokenRejection::Unavailable(_))), "{refused:?}");
}

/// An introspection endpoint that returns these claims for every token except `sk-guess`, and records the
/// requests.
struct Endpoint {
    server: Server,
    claims: Arc<Mutex<Value>>,
    requests: Arc<Mutex<Vec<String>>>,
    status: Arc<AtomicUsize>,
}

impl Endpoint {
    async fn start() -> Self {
        let (claims, requests) = (Arc::new(Mutex::new(Value::Null)), Arc::new(Mutex::new(Vec::new())));
        let status = Arc::new(AtomicUsize::new(200));
        let (shared_claims, seen, with) = (claims.clone(), requests.clone(), status.clone());
        let server = Server::start(move |request| {
            seen.lock().push(request.to_owned());
            let body = match request.contains("token=sk-guess&") {
                true => json!({ "active": false }).to_string(),
                false => shared_claims.lock().to_string(),
            };
            let (status, length) = (with.load(Relaxed), body.len());
            format!("HTTP/1.1 {status} So\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
                .into_bytes()
        })
        .await;
        Self { server, claims, requests, status }
    }

    fn good() -> Value {
        json!({ "active": true, "sub": "ann", "aud": [RESOURCE], "exp": now() + 600, "scope": "tools more",
            "token_type": "Bearer", "iss": "https://login.example" })
    }

    fn tokens(&self, issuers: &[&str]) -> TokenChecker {
        let settings = ResourceServer {
            authorization_servers: issuers.iter().map(|issuer| (*issuer).to_owned()).collect(),
            resource: RESOURCE.parse().unwrap(),
            scopes: vec!["tools".into()],
            user_claim: "sub".into(),
            mcp_tools: None,
            introspection: Some(Introspection {
                url: self.server.url("/introspect").parse().unwrap(),
                client_id: "house:1".into(),
                client_secret: SecretSource::Literal("a b%".into()),
            }),
        };
        TokenChecker::new(&settings).unwrap()
    }
}

#[tokio::test]
async fn introspection_results_of_an_opaque_token_are_cached() {
    let endpoint = Endpoint::start().await;
    let tokens = endpoint.tokens(&["https://login.example"]);
    *endpoint.claims.lock() = with(&Endpoint::good(), "name", json!("Ann"));
    let all = (0..50).map(|_| tokens.check("opaque+1"));
    for bearer in futures::future::join_all(all).await {
        assert_eq!(bearer.unwrap().user.text("name").as_deref(), Some("Ann"));
    }
    {
        let requests = endpoint.requests.lock();
        assert_eq!(requests.len(), 1, "{requests:?}");
        let request = &requests[0];
        assert!(request.starts_with("POST /introspect "), "{request}");
        // The credentials are the base64 of `house%3A1:a+b%25`, form-encoded before they are joined.
        assert!(request.contains("authorization: Basic aG91c2UlM0ExOmErYiUyNQ==\r\n"), "{request}");
        assert!(request.ends_with("token=opaque%2B1&token_type_hint=access_token"), "{request}");
    }
    // A revoked token is valid no longer than its response is cached.
    *endpoint.claims.lock() = json!({ "active": false });
    assert!(tokens.check("opaque+1").await.is_ok());
    pass(Duration::from_secs(31)).await;
    assert!(matches!(tokens.check("opaque+1").await, Err(TokenRejection::Foreign(_))));
    assert!(matches!(tokens.check("opaque+1").await, Err(TokenRejection::Foreign(_))));
    assert_eq!(endpoint.requests.lock().len(), 2);
    // A JSON web token of a known issuer causes no request.
    let issuer = Issuer::start(vec![]).await;
    let tokens = endpoint.tokens(&[&issuer.name()]);
    let own = Key::ec().token(json!({ "alg": "ES256", "kid": "k" }), &issuer.claims());
    assert!(matches!(tokens.check(&own).await, Err(TokenRejection::Invalid(_))));
    assert_eq!(endpoint.requests.lock().len(), 2);
}

#[tokio::test]
async fn an_opaque_token_for_another_host_or_time_is_rejected() {
    let endpoint = Endpoint::start().await;
    let good = Endpoint::good();
    let one = ["https://login.example"];
    let cases = [
        ("not active", with(&good, "active", json!(false)), false),
        ("another audience", with(&good, "aud", json!("https://other.example/mcp")), false),
        ("no audience", without(&good, "aud"), false),
        ("an empty audience", with(&good, "aud", json!([])), false),
        ("another issuer", with(&good, "iss", json!("https://evil.example")), false),
        ("several issuers", with(&good, "iss", json!(["https://login.example"])), false),
        ("expired", with(&good, "exp", json!(now() - 60)), false),
        ("an end that is a text", with(&good, "exp", json!("tomorrow")), false),
        ("not yet", with(&good, "nbf", json!(now() + 600)), false),
        ("no user", without(&good, "sub"), false),
        ("an empty user", with(&good, "sub", json!("")), false),
        ("a bound token", with(&good, "token_type", json!("DPoP")), false),
        ("a token bound to a certificate", with(&good, "cnf", json!({ "x5t#S256": "abc" })), false),
        (
            "a token bound to a proof",
            with(&without(&good, "token_type"), "cnf", json!({ "jkt": "abc" })),
            false,
        ),
        ("an empty binding", with(&good, "cnf", json!({})), false),
        ("a refresh token", with(&good, "token_use", json!("refresh_token")), false),
        ("a refresh token of Cognito", with(&good, "token_use", json!("refresh")), false),
        ("a refresh token of Keycloak", with(&without(&good, "token_type"), "typ", json!("Refresh")), false),
        ("an access token of Keycloak", with(&without(&good, "token_type"), "typ", json!("Bearer")), true),
        ("no binding", with(&good, "cnf", json!(null)), true),
        ("no issuer", without(&good, "iss"), true),
        ("no end", without(&good, "exp"), true),
        ("no type", without(&good, "token_type"), true),
        ("one audience", with(&good, "aud", json!(RESOURCE)), true),
    ];
    for (case, claims, counts) in cases {
        *endpoint.claims.lock() = claims;
        let checked = endpoint.tokens(&one).check("opaque").await;
        match counts {
            true => assert!(checked.is_ok(), "{case}: {checked:?}"),
            false => assert!(
                matches!(checked, Err(TokenRejection::Invalid(_) | TokenRejection::Foreign(_))),
                "{case}: {checked:?}"
            ),
        }
    }
    *endpoint.claims.lock() = with(&good, "scope", json!("more"));
    let refused = endpoint.tokens(&one).check("opaque").await.unwrap_err();
    assert_eq!(refused, TokenRejection::Scopes(vec!["tools".into()]));
    // With several servers, the token has to name its issuer.
    *endpoint.claims.lock() = without(&good, "iss");
    let two = endpoint.tokens(&["https://login.example", "https://other.example"]);
    assert!(matches!(two.check("opaque").await, Err(TokenRejection::Invalid(_))));
    let guess = endpoint.tokens(&one).check("sk-guess").await;
    assert!(matches!(guess, Err(TokenRejection::Foreign(_))), "{guess:?}");
}

#[tokio::test]
async fn an_opaque_token_expires_while_its_answer_is_cached() {
    let endpoint = Endpoint::start().await;
    let tokens = endpoint.tokens(&["https://login.example"]);
    // The clocks may differ by 30 seconds.
    let exp = now() - 28;
    *endpoint.claims.lock() = with(&Endpoint::good(), "exp", json!(exp));
    assert!(tokens.check("opaque").await.is_ok());
    let expired = async {
        while !matches!(tokens.check("opaque").await, Err(TokenRejection::Invalid(_))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), expired).await.expect("the token never expires");
    assert_eq!(endpoint.requests.lock().len(), 1);
}

#[tokio::test]
async fn an_invalid_introspection_response_rejects_the_token_and_is_not_cached() {
    let endpoint = Endpoint::start().await;
    let tokens = endpoint.tokens(&["https://login.example"]);
    for status in [401, 403, 404, 500, 503] {
        endpoint.status.store(status, Relaxed);
        let refused = tokens.check("opaque").await;
        assert!(
            matches!(&refused, Err(TokenRejection::Unavailable(why)) if why.contains(&status.to_string())),
            "{refused:?}"
        );
    }
    endpoint.status.store(200, Relaxed);
    for claims in [json!({}), json!({ "active": "true", "sub": "ann" }), json!([]), json!("x".repeat(70_000))]
    {
        *endpoint.claims.lock() = claims;
        let refused = tokens.check("opaque").await;
        assert!(matches!(refused, Err(TokenRejection::Unavailable(_))), "{refused:?}");
    }
    *endpoint.claims.lock() = Endpoint::good();
    assert!(tokens.check("opaque").await.is_ok());
    drop(endpoint);
    assert!(tokens.check("opaque").await.is_ok());
}

#[tokio::test]
async fn key_bound_tokens_and_refresh_tokens_are_rejected() {
    let key = Key::ec();
    let issuer = Issuer::start(vec![key.published("k")]).await;
    let tokens = issuer.tokens();
    let header = json!({ "alg": "ES256", "kid": "k" });
    let good = issuer.claims();
    for (claim, value, why) in [
        ("cnf", json!({ "jkt": "abc" }), "bound to a key"),
        ("cnf", json!({ "x5t#S256": "abc" }), "bound to a key"),
        ("typ", json!("Refresh"), "refresh token"),
        ("token_use", json!("refresh"), "refresh token"),
    ] {
        let token = key.token(header.clone(), &with(&good, claim, value));
        let refused = tokens.check(&token).await;
        assert!(
            matches!(&refused, Err(TokenRejection::Invalid(text)) if text.contains(why)),
            "{claim}: {refused:?}"
        );
    }
    let other = with(&with(&good, "typ", json!("Bearer")), "token_use", json!("access"));
    assert!(tokens.check(&key.token(header, &other)).await.is_ok());
}

#[tokio::test]
async fn a_held_token_ends_when_it_is_revoked() {
    let endpoint = Endpoint::start().await;
    let tokens = Arc::new(endpoint.tokens(&["https://login.example"]));
    *endpoint.claims.lock() = Endpoint::good();
    let bearer = tokens.check("opaque").await.unwrap();
    let held = HeldToken::new(tokens, "opaque", &bearer);
    let lapse = tokio::spawn(async move { held.lapsed().await });
    for round in 1..=2 {
        settle().await;
        pass(Duration::from_secs(31)).await;
        let next_introspection = async {
            while endpoint.requests.lock().len() <= round {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), next_introspection).await.expect("nobody asks again");
        assert!(!lapse.is_finished());
    }
    settle().await;
    *endpoint.claims.lock() = json!({ "active": false });
    pass(Duration::from_secs(31)).await;
    tokio::time::timeout(Duration::from_secs(20), lapse).await.expect("it goes on").unwrap();
}

/// Gives tasks time to reach their next wait.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Advances the clock of the host only.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
