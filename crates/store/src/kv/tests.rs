//! KV maps as scripts use them: atomic, with expiry, bounded, and written in the background.

use super::error::MAX_BYTES;
use super::*;
use crate::record::{KvChange, KvRow};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use valvehouse_json::Json;

/// Returns the maps with a clock that the test sets.
fn timed() -> (Kv, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(1_000_000));
    let clock = now.clone();
    (Kv::with_clock(move || clock.load(Ordering::SeqCst)), now)
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[test]
fn maps_are_separate_per_plugin_and_scope() {
    let kv = Kv::default();
    for (plugin, scope, value) in [("a", "own", 1), ("a", "user/ann", 2), ("b", "own", 3)] {
        kv.map(plugin, scope).set("k", &Json::from(i64::from(value)), None).unwrap();
    }
    assert_eq!(kv.map("a", "own").get("k"), Some(1_i64.into()));
    assert_eq!(kv.map("a", "user/ann").get("k"), Some(2_i64.into()));
    assert_eq!(kv.map("b", "own").get("k"), Some(3_i64.into()));
    assert_eq!(kv.map("b", "user/ann").get("k"), None);
}

#[test]
fn stored_values_are_copies() {
    let map = Kv::default().map("a", "own");
    let list = json("[1]");
    map.set("list", &list, None).unwrap();
    list.as_array().unwrap().push(2_i64.into()).unwrap();
    map.get("list").unwrap().as_array().unwrap().push(3_i64.into()).unwrap();
    assert_eq!(map.get("list"), Some(json("[1]")));
}

#[test]
fn null_deletes_and_keys_are_listed_in_order() {
    let map = Kv::default().map("a", "own");
    for key in ["b/2", "a", "b/1", "c"] {
        map.set(key, &true.into(), None).unwrap();
    }
    map.set("c", &Json::Null, None).unwrap();
    assert_eq!(map.keys(""), ["a", "b/1", "b/2"]);
    assert_eq!(map.keys("b/"), ["b/1", "b/2"]);
    assert!(map.delete("a") && !map.delete("a") && !map.delete("c"));
}

#[test]
fn an_entry_expires_after_its_ttl() {
    let (kv, now) = timed();
    let map = kv.map("a", "own");
    map.set("short", &"x".into(), seconds(2)).unwrap();
    map.set("long", &"y".into(), None).unwrap();
    now.fetch_add(1_999, Ordering::SeqCst);
    assert!(map.get("short").is_some());
    now.fetch_add(1, Ordering::SeqCst);
    assert_eq!((map.get("short"), map.keys("")), (None, vec!["long".to_owned()]));
    assert!(!map.delete("short"));
    // A new value without a lifetime never expires.
    map.set("short", &"x".into(), seconds(2)).unwrap();
    map.set("short", &"x".into(), None).unwrap();
    now.fetch_add(1_000_000, Ordering::SeqCst);
    assert!(map.get("short").is_some());
}

#[test]
fn the_ttl_of_a_counter_starts_with_its_first_count() {
    let (kv, now) = timed();
    let map = kv.map("a", "own");
    let count = || map.incr("n", &1_i64.into(), seconds(10)).unwrap().as_i64().unwrap();
    assert_eq!([count(), count()], [1, 2]);
    now.fetch_add(9_000, Ordering::SeqCst);
    assert_eq!(count(), 3);
    now.fetch_add(1_000, Ordering::SeqCst);
    assert_eq!(count(), 1);
}

#[test]
fn counting_keeps_integers() {
    let map = Kv::default().map("a", "own");
    assert_eq!(map.incr("n", &5_i64.into(), None).unwrap().to_string(), "5");
    assert_eq!(map.incr("n", &(-7_i64).into(), None).unwrap().to_string(), "-2");
    assert_eq!(map.incr("n", &0.5.into(), None).unwrap().to_string(), "-1.5");
    map.set("text", &"x".into(), None).unwrap();
    assert_eq!(map.incr("text", &1_i64.into(), None), Err(KvError::NoNumber("string")));
    map.set("most", &i64::MAX.into(), None).unwrap();
    assert_eq!(map.incr("most", &1_i64.into(), None), Err(KvError::Overflow));
}

#[test]
fn a_write_over_a_limit_is_rejected_and_changes_nothing() {
    let kv = Kv::default();
    let map = kv.map("a", "own");
    let text = |bytes: usize| Json::from("x".repeat(bytes));
    assert_eq!(map.set("", &1_i64.into(), None), Err(KvError::Key(0)));
    assert_eq!(map.set(&"k".repeat(513), &1_i64.into(), None), Err(KvError::Key(513)));
    assert!(map.set(&"k".repeat(512), &text(LARGEST_VALUE - 2), None).is_ok());
    assert_eq!(map.set("k", &text(LARGEST_VALUE - 1), None), Err(KvError::Value));
    // Quotes take two bytes each when encoded.
    assert_eq!(map.set("k", &"\"".repeat(LARGEST_VALUE / 2 + 1).into(), None), Err(KvError::Value));
    let shared = (0..40).fold(json("[]"), |inner, _| vec![inner.clone(), inner].into());
    assert_eq!(map.set("k", &shared, None), Err(KvError::Value));
    assert_eq!(map.get("k"), None);
}

#[test]
fn keys_per_plugin_are_limited_and_expired_ones_make_room() {
    let (kv, now) = timed();
    for number in 0..MAX_KEYS {
        let ttl = if number == 0 { seconds(1) } else { None };
        kv.map("a", format!("user/{}", number % 7)).set(&number.to_string(), &1_i64.into(), ttl).unwrap();
    }
    let map = kv.map("a", "own");
    assert_eq!(map.set("new", &1_i64.into(), None), Err(KvError::Full));
    assert_eq!(map.incr("new", &1_i64.into(), None), Err(KvError::Full));
    kv.map("a", "user/1").set("1", &2_i64.into(), None).unwrap();
    kv.map("b", "own").set("new", &1_i64.into(), None).unwrap();
    now.fetch_add(1_000, Ordering::SeqCst);
    map.set("new", &1_i64.into(), None).unwrap();
    assert_eq!(map.set("newer", &1_i64.into(), None), Err(KvError::Full));
}

#[test]
fn concurrent_turns_lose_no_increments() {
    let kv = Kv::default();
    std::thread::scope(|threads| {
        for _ in 0..20 {
            threads.spawn(|| {
                let map = kv.map("a", "own");
                for _ in 0..50 {
                    map.incr("incr", &1_i64.into(), None).unwrap();
                    let updated = map.update("update", None, |old| {
                        std::thread::yield_now();
                        Ok::<_, KvError>(Json::from(old.as_i64().unwrap_or(0) + 1))
                    });
                    updated.unwrap();
                    map.window("window", Duration::from_secs(3_600), 700).unwrap();
                }
            });
        }
    });
    let map = kv.map("a", "own");
    assert_eq!(map.get("incr"), Some(1_000_i64.into()));
    assert_eq!(map.get("update"), Some(1_000_i64.into()));
    let window = map.window("window", Duration::from_secs(3_600), 700).unwrap();
    assert_eq!((window.allowed, window.count), (false, 700));
}

#[test]
fn an_update_sees_a_concurrent_change() {
    let (kv, now) = timed();
    let map = kv.map("a", "own");
    map.set("list", &json("[1]"), seconds(10)).unwrap();
    let mut tries = 0;
    let after = map.update("list", None, |old| {
        tries += 1;
        if tries == 1 {
            kv.map("a", "own").update("list", None, |old| {
                old.as_array().unwrap().push(2_i64.into()).unwrap();
                Ok::<_, KvError>(old)
            })?;
        }
        old.as_array().unwrap().push(3_i64.into()).unwrap();
        Ok::<_, KvError>(old)
    });
    assert_eq!((after.unwrap(), tries), (json("[1,2,3]"), 2));
    // The update kept the expiry.
    now.fetch_add(10_000, Ordering::SeqCst);
    assert_eq!(map.get("list"), None);

    let failed: Result<Json, KvError> = map.update("x", None, |_| Err(KvError::Overflow));
    assert_eq!((failed, map.get("x")), (Err(KvError::Overflow), None));
    map.set("x", &1_i64.into(), None).unwrap();
    map.update("x", None, |_| Ok::<_, KvError>(Json::Null)).unwrap();
    assert_eq!(map.get("x"), None);
    let always = map.update("busy", None, |old| {
        kv.map("a", "own").incr("busy", &1_i64.into(), None)?;
        Ok(old)
    });
    assert_eq!(always, Err(KvError::Contended));
}

#[test]
fn a_rate_window_slides() {
    let (kv, now) = timed();
    let map = kv.map("a", "own");
    let hit = || map.window("w", Duration::from_secs(10), 2).unwrap();
    let window = |allowed, count, retry_after| Window { allowed, count, retry_after };
    assert_eq!(hit(), window(true, 1, 0));
    now.fetch_add(4_000, Ordering::SeqCst);
    assert_eq!(hit(), window(true, 2, 0));
    now.fetch_add(1_000, Ordering::SeqCst);
    assert_eq!(hit(), window(false, 2, 5));
    now.fetch_add(4_999, Ordering::SeqCst);
    assert_eq!(hit(), window(false, 2, 1));
    now.fetch_add(1, Ordering::SeqCst);
    assert_eq!(hit(), window(true, 2, 0));
    assert!(!hit().allowed);
    now.fetch_add(60_000, Ordering::SeqCst);
    assert_eq!(hit(), window(true, 1, 0));
    // With a lower limit, more than one hit must expire; with a limit of zero there is never room.
    assert_eq!(map.window("w", Duration::from_secs(10), 0).unwrap(), window(false, 1, 10));
    map.set("other", &"text".into(), None).unwrap();
    assert_eq!(map.window("other", Duration::from_secs(10), 2), Err(KvError::NoWindow));
}

#[test]
fn a_rate_window_of_a_day_uses_little_memory() {
    let (kv, now) = timed();
    let map = kv.map("a", "own");
    // A little longer than a day.
    for _ in 0..9_000 {
        map.window("w", Duration::from_secs(86_400), 1_000_000).unwrap();
        now.fetch_add(10_000, Ordering::SeqCst);
    }
    assert!(map.get("w").unwrap().to_string().len() < LARGEST_VALUE / 2);
    let count = map.window("w", Duration::from_secs(86_400), 1_000_000).unwrap().count;
    assert!((8_640..8_660).contains(&count), "{count}");
}

proptest! {
    #[test]
    fn no_window_ever_holds_more_than_its_limit(
        steps in prop::collection::vec(0_i64..3_000, 1..200), limit in 1_u64..6, length in 1_u64..5,
    ) {
        let (kv, now) = timed();
        let map = kv.map("a", "own");
        let mut hits: Vec<i64> = Vec::new();
        for step in steps {
            let at = now.fetch_add(step, Ordering::SeqCst) + step;
            let window = map.window("w", Duration::from_secs(length), limit).unwrap();
            let since = at - length as i64 * 1_000;
            let recent = hits.iter().filter(|hit| **hit > since).count() as u64;
            if window.allowed {
                prop_assert!(recent < limit);
                hits.push(at);
            } else {
                let then = at + window.retry_after as i64 * 1_000 - length as i64 * 1_000;
                prop_assert!((hits.iter().filter(|hit| **hit > then).count() as u64) < limit);
            }
        }
    }
}

#[test]
fn changes_are_handed_out_again_only_after_a_failed_write() {
    let (kv, now) = timed();
    let map = kv.map("a", "own");
    for _ in 0..100 {
        map.incr("n", &1_i64.into(), None).unwrap();
    }
    map.set("gone", &1_i64.into(), None).unwrap();
    map.delete("gone");
    map.set("short", &"s".into(), seconds(1)).unwrap();
    let row = |key: &str, value: Json, expires_at| {
        KvChange::Set(KvRow { plugin: "a".into(), scope: "own".into(), key: key.into(), value, expires_at })
    };
    let deleted = |key: &str| KvChange::Delete { plugin: "a".into(), scope: "own".into(), key: key.into() };
    let first = kv.take_changes();
    let expected =
        [deleted("gone"), row("n", 100_i64.into(), None), row("short", "s".into(), Some(1_001_000))];
    assert_eq!(first, expected);
    assert_eq!(kv.take_changes(), []);
    kv.give_back(&first[1..2]);
    map.incr("n", &1_i64.into(), None).unwrap();
    assert_eq!(kv.take_changes(), [row("n", 101_i64.into(), None)]);
    now.fetch_add(1_000, Ordering::SeqCst);
    assert_eq!(kv.take_changes(), [deleted("short")]);
}

#[test]
fn values_survive_a_restart() {
    let row = |key: &str, expires_at| KvRow {
        plugin: "a".into(),
        scope: "user/ann".into(),
        key: key.into(),
        value: json("[1]"),
        expires_at,
    };
    let kv = Kv::load([row("ever", None), row("over", Some(1)), row("later", Some(i64::MAX))]);
    assert_eq!(kv.take_changes(), []);
    assert_eq!(kv.map("a", "user/ann").keys(""), ["ever", "later"]);
    assert_eq!(kv.map("a", "user/ann").get("ever"), Some(json("[1]")));
}

#[test]
fn the_storage_of_a_script_is_limited() {
    let kv = Kv::default();
    let map = kv.map("x", "");
    let large = Json::from("x".repeat(60_000));
    let kept = (0..).take_while(|key| map.set(&format!("k{key}"), &large, None).is_ok()).count();
    assert_eq!(kept, MAX_BYTES / 60_004);
    assert_eq!(map.set("one more", &large, None), Err(KvError::Heavy));
    assert!(map.set("k0", &large, None).is_ok() && map.set("small", &1_i64.into(), None).is_ok());
    map.set("k0", &Json::Null, None).unwrap();
    assert!(map.set("one more", &large, None).is_ok());
    assert!(kv.map("y", "").set("k", &large, None).is_ok());
}
