//! The check of a bearer token, with the accepted signature algorithms.

use super::introspection::Introspector;
use super::issuer::{Issuer, NoKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use valvehouse_config::ResourceServer;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_jwt::install;
use valvehouse_net::Client;

/// The maximum size of a token, in bytes.
const MAX_TOKEN: usize = 16 << 10;
/// The tolerated difference between the clocks of issuer and host, in seconds.
const LEEWAY: u64 = 30;

/// The check of tokens from the configured authorization servers.
pub struct TokenChecker {
    settings: ResourceServer,
    issuers: Vec<Issuer>,
    introspector: Option<Introspector>,
    client: Client,
}

/// The holder of a valid token.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// The user in the form that scripts see: `{id, name, email, role, issuer, scopes}`.
    pub user: Json,
    /// An identifier for comparisons.
    pub owner: String,
    /// The expiry of the token in seconds since 1970; `None` if its authorization server does not report it.
    expires: Option<f64>,
}

impl Bearer {
    /// Returns the remaining lifetime of the token; `None` if it does not expire.
    pub(super) fn counts_for(&self) -> Option<Duration> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "it is a small number")]
        let end = self.expires? + LEEWAY as f64;
        Some(Duration::try_from_secs_f64(end - now).unwrap_or(Duration::ZERO))
    }
}

/// The reason for rejecting a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRejection {
    /// The token does not claim to be from a known issuer, for this reason; it may be a guess at a key of the
    /// host.
    Foreign(String),
    /// The token is invalid for this reason.
    Invalid(String),
    /// The token is valid, but lacks these scopes.
    Scopes(Vec<String>),
    /// The keys of the issuer are unavailable for this reason.
    Unavailable(String),
}

impl TokenChecker {
    /// Creates the check for the settings of `[oauth]`. No request is made before the first token.
    ///
    /// # Errors
    /// Returns an error if the HTTP client cannot be created.
    pub fn new(settings: &ResourceServer) -> Result<Self, Error> {
        install();
        let issuers = settings.authorization_servers.iter().map(|name| Issuer::new(name)).collect();
        let introspector = settings.introspection.as_ref().map(Introspector::new);
        Ok(Self { settings: settings.clone(), issuers, introspector, client: Client::new()? })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ResourceServer {
        &self.settings
    }

    /// Checks a token: issuer, signature, audience, times and scopes. A token that is not a JSON web token is
    /// checked by its authorization server if an introspection endpoint is configured.
    ///
    /// # Errors
    /// Returns the reason for rejecting the token.
    // Boxed, so that the future is compiled here and not in the dependent packages.
    pub fn check<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Bearer, TokenRejection>> {
        Box::pin(self.checked(token))
    }

    async fn checked(&self, token: &str) -> Result<Bearer, TokenRejection> {
        let invalid = |why: &str| TokenRejection::Invalid(why.to_owned());
        let foreign = |why: &str| TokenRejection::Foreign(why.to_owned());
        if token.len() > MAX_TOKEN {
            return Err(foreign("it is longer than 16 KiB"));
        }
        let Some((claims, header)) = unverified(token) else {
            return match &self.introspector {
                Some(introspector) => self.introspect(introspector, token).await,
                None => Err(foreign("it is not a valid JSON web token")),
            };
        };
        // The unverified name only selects the keys; the signature decides.
        let issuer = claims["iss"].as_str();
        let issuer = self.issuers.iter().find(|known| Some(known.name.as_str()) == issuer);
        let issuer = issuer.ok_or_else(|| foreign("its issuer is not in oauth.authorization_servers"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid("its algorithm is not an asymmetric one"));
        }
        let key = issuer.key(header.kid.as_deref(), &self.client).await.map_err(|no_key| match no_key {
            NoKey::Unknown => invalid("its issuer has no such key"),
            NoKey::Unavailable(why) => TokenRejection::Unavailable(why),
        })?;
        if key.common.key_algorithm.is_some_and(|only| only.to_string() != format!("{:?}", header.alg)) {
            return Err(invalid("its key is for another algorithm"));
        }
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&issuer.name]);
        let resource = self.settings.resource.as_str();
        validation.set_audience(&[resource, resource.trim_end_matches('/')]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let key = DecodingKey::from_jwk(&key).map_err(|_| invalid("its key cannot be used"))?;
        let claims =
            decode::<Value>(token, &key, &validation).map_err(|error| invalid(reason(error.kind())))?;
        self.holder(&issuer.name, &claims.claims)
    }

    /// Checks a token at the introspection endpoint.
    async fn introspect(&self, introspector: &Introspector, token: &str) -> Result<Bearer, TokenRejection> {
        let invalid = |why: &str| TokenRejection::Invalid(why.to_owned());
        if token.is_empty() {
            return Err(TokenRejection::Foreign("it is empty".into()));
        }
        let claims = introspector.answer(token, &self.client).await.map_err(TokenRejection::Unavailable)?;
        if claims["active"] != true {
            // The token may be a guess at a key.
            return Err(TokenRejection::Foreign("its authorization server reports it as not active".into()));
        }
        let is =
            |key: &str, word: &str| claims[key].as_str().is_some_and(|own| own.eq_ignore_ascii_case(word));
        let has_other_type = !claims["token_type"].is_null()
            && !is("token_type", "bearer")
            && !is("token_type", "access_token");
        if has_other_type {
            return Err(invalid("it is not a bearer token"));
        }
        let issuer = match (&claims["iss"], self.issuers.as_slice()) {
            // With only one authorization server, the response need not name the issuer.
            (Value::Null, [only]) => Some(only),
            (iss, known) => known.iter().find(|known| Some(known.name.as_str()) == iss.as_str()),
        };
        let issuer = issuer.ok_or_else(|| invalid("its issuer is not in oauth.authorization_servers"))?;
        let resource = self.settings.resource.as_str();
        let is_own = |aud: &Value| {
            aud.as_str().is_some_and(|aud| aud == resource || aud == resource.trim_end_matches('/'))
        };
        let is_for_host = match &claims["aud"] {
            Value::Array(all) => all.iter().any(is_own),
            one => is_own(one),
        };
        if !is_for_host {
            return Err(invalid("it is for another resource"));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let time = |key: &str| match &claims[key] {
            Value::Null => Ok(None),
            // Some servers write fractional seconds.
            time => time.as_f64().map(Some).ok_or_else(|| invalid("its time claims are not numbers")),
        };
        #[allow(clippy::cast_precision_loss, reason = "seconds since 1970 fit into 52 bits")]
        let (earliest, latest) = (now.saturating_sub(LEEWAY) as f64, (now + LEEWAY) as f64);
        if time("exp")?.is_some_and(|exp| exp < earliest) {
            return Err(invalid("it has expired"));
        }
        if time("nbf")?.is_some_and(|nbf| nbf > latest) {
            return Err(invalid("it is not valid yet"));
        }
        self.holder(&issuer.name, &claims)
    }

    fn holder(&self, issuer: &str, claims: &Value) -> Result<Bearer, TokenRejection> {
        if let Some(why) = other_purpose(claims) {
            return Err(TokenRejection::Invalid(why.into()));
        }
        let name = &self.settings.user_claim;
        let Some(id) = claims[name.as_str()].as_str().filter(|id| !id.is_empty()) else {
            return Err(TokenRejection::Invalid(format!(
                "it has no claim `{name}` with the user's id as a string"
            )));
        };
        let scopes = scopes(claims);
        let missing = self.settings.scopes.iter().filter(|required| !scopes.contains(&required.as_str()));
        let missing: Vec<String> = missing.cloned().collect();
        if !missing.is_empty() {
            return Err(TokenRejection::Scopes(missing));
        }
        // Equal names at different issuers are different users.
        let id = match self.issuers.len() {
            1 => id.to_owned(),
            _ => format!("{issuer}#{id}"),
        };
        let text = |key: &str| claims[key].as_str().map_or(Json::Null, Json::from);
        let user = Json::from([
            ("id", id.as_str().into()),
            ("name", text("name")),
            ("email", text("email")),
            ("role", "user".into()),
            ("issuer", issuer.into()),
            ("scopes", scopes.iter().map(|scope| Json::from(*scope)).collect::<Vec<_>>().into()),
        ]);
        Ok(Bearer { user, owner: format!("token {issuer} {id}"), expires: claims["exp"].as_f64() })
    }
}

/// Returns the unverified claims and header of a token.
fn unverified(token: &str) -> Option<(Value, Header)> {
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let read = |part: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object)
    };
    // The token requires an unsupported extension.
    if read(header)?.get("crit").is_some() {
        return None;
    }
    Some((read(claims)?, decode_header(token).ok()?))
}

/// Returns the reason why a token is not a bearer's access token; `None` if it is one.
fn other_purpose(claims: &Value) -> Option<&'static str> {
    // The proof of possession of the key cannot be checked here (RFC 7800, 8705, 9449).
    if claims.get("cnf").is_some_and(|key| !key.is_null()) {
        return Some("it is bound to a key (`cnf`)");
    }
    let mut purposes = ["typ", "token_use", "token_type"].into_iter().filter_map(|key| claims[key].as_str());
    let is_refresh = |word: &str| {
        let word = word.to_ascii_lowercase();
        word.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|part| part == "refresh")
    };
    purposes.any(is_refresh).then_some("it is a refresh token")
}

/// Returns the scopes of a token: a text with spaces between them, or a list.
fn scopes(claims: &Value) -> Vec<&str> {
    let all = ["scope", "scp"].map(|key| &claims[key]);
    let texts = all.iter().flat_map(|value| match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    });
    texts.flat_map(str::split_whitespace).collect()
}

fn reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidAudience => "it is for another resource",
        ErrorKind::InvalidSignature => "its signature does not match a key of its issuer",
        ErrorKind::MissingRequiredClaim(_) => "one of `exp`, `iss` and `aud` is missing",
        ErrorKind::InvalidClaimFormat(_) => "its time claims are not numbers",
        _ => "it cannot be read",
    }
}

/// The accepted algorithms: signatures that require the issuer's private key.
pub(super) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
