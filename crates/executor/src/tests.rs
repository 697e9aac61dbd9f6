use super::lane::LANES;
use super::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::oneshot;

/// Waits without saving thread-local state.
fn wait<F: Future>(future: F) -> Result<F::Output, WaitEnd> {
    super::wait(future, |put_aside| put_aside())
}

fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, ExecutorError>> {
    super::run(Workload::Blocking, work)
}

fn wait_ms(ms: u64) -> Result<(), WaitEnd> {
    wait(async move { tokio::time::sleep(Duration::from_millis(ms)).await })
}

/// Sets a flag when dropped.
struct DropMark(Arc<AtomicBool>);

impl Drop for DropMark {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came");
}

#[tokio::test]
async fn work_can_wait_and_returns_its_value() {
    let value = run(|| {
        let kept = String::from("kept over the wait");
        wait_ms(5).unwrap();
        wait_ms(5).unwrap();
        kept
    });
    assert_eq!(value.await.unwrap(), "kept over the wait");
}

#[tokio::test]
async fn thousands_of_tasks_wait_on_a_few_threads() {
    let (open, opened) = tokio::sync::watch::channel(false);
    let waiting = Arc::new(AtomicUsize::new(0));
    let pieces: Vec<_> = (0..3_000)
        .map(|index| {
            let (mut opened, waiting) = (opened.clone(), waiting.clone());
            tokio::spawn(run(move || {
                waiting.fetch_add(1, Relaxed);
                wait(async { opened.wait_for(|open| *open).await.is_ok() }).unwrap();
                index
            }))
        })
        .collect();
    until(|| waiting.load(Relaxed) == 3_000).await;
    open.send_replace(true);
    for (index, piece) in pieces.into_iter().enumerate() {
        assert_eq!(piece.await.unwrap().unwrap(), index);
    }
}

#[tokio::test]
async fn dropping_the_future_ends_the_work_and_drops_its_values() {
    let dropped = Arc::new(AtomicBool::new(false));
    let held = DropMark(dropped.clone());
    let ((sender, end), (began, begun)) = (oneshot::channel(), oneshot::channel());
    let work = run(move || {
        let _held = held;
        began.send(()).unwrap();
        let ended = wait(std::future::pending::<()>());
        // From here on, every wait returns at once.
        let again = wait_ms(60_000);
        sender.send((ended, again, yield_now())).unwrap();
    });
    tokio::select! {
        _ = work => panic!("it waits for ever"),
        begun = begun => begun.unwrap(),
    }
    let over = Err(WaitEnd::Over);
    assert_eq!(end.await.unwrap(), (Err(WaitEnd::Over), over, over));
    until(|| dropped.load(Relaxed)).await;
}

#[tokio::test]
async fn cpu_bound_work_yields_and_can_be_ended() {
    let (begins, begun) = oneshot::channel();
    let (sender, end) = oneshot::channel();
    let work = run(move || {
        begins.send(()).unwrap();
        let mut rounds = 0_u64;
        while yield_now().is_ok() {
            rounds += 1;
        }
        sender.send(rounds).unwrap();
    });
    let others = async {
        begun.await.unwrap();
        for _ in 0..8 {
            assert_eq!(run(|| 7).await.unwrap(), 7);
        }
    };
    tokio::select! {
        _ = work => panic!("it computes for ever"),
        () = others => {}
    }
    assert!(end.await.unwrap() > 0);
}

#[tokio::test]
async fn slow_work_completes() {
    assert_eq!(super::run(Workload::CpuBound, || wait_ms(1).map(|()| 3)).await.unwrap(), Ok(3));
}

#[tokio::test]
async fn a_panic_ends_only_its_own_work() {
    let broken = run(|| -> u8 {
        wait_ms(1).unwrap();
        panic!("as expected by the test")
    });
    assert!(matches!(broken.await, Err(ExecutorError::Panicked)));
    assert_eq!(run(|| 1).await.unwrap(), 1);
}

#[tokio::test]
async fn a_future_that_is_awaited_may_run_work_of_its_own() {
    let outer = run(|| {
        assert!(is_here());
        wait(async {
            // The inner work is polled on the stack of the outer one, but is not part of it.
            assert!(!is_here());
            assert_eq!(wait(async {}), Err(WaitEnd::Elsewhere));
            run(|| wait_ms(5).map(|()| 5)).await.unwrap().unwrap()
        })
    });
    assert_eq!(outer.await.unwrap(), Ok(5));
}

#[test]
fn work_without_waits_needs_no_runtime() {
    assert_eq!(futures::executor::block_on(run(|| 7)).unwrap(), 7);
}

#[tokio::test]
async fn waiting_outside_the_executor_is_an_error() {
    assert_eq!(wait(async {}), Err(WaitEnd::Elsewhere));
    assert_eq!(yield_now(), Ok(()));
    assert!(!is_here());
}

#[tokio::test]
async fn values_that_are_not_send_may_be_held_across_a_wait() {
    let value = run(|| {
        let own = Rc::new(Cell::new(1));
        wait_ms(2).unwrap();
        own.set(own.get() + 1);
        own.get()
    });
    assert_eq!(value.await.unwrap(), 2);
}

#[tokio::test]
async fn a_stack_is_as_deep_as_scripts_can_be() {
    fn deep(levels: u32) -> u64 {
        let block = std::hint::black_box([levels as u8; 1024]);
        if levels == 0 { 0 } else { deep(levels - 1) + u64::from(block[7]) }
    }
    // The frames take 100 MB.
    assert!(run(|| deep(100_000)).await.unwrap() > 0);
}

/// Computes without yielding until the flag is set.
fn computes_until(ended: &AtomicBool) {
    while !ended.load(Relaxed) {
        std::hint::spin_loop();
    }
}

/// The test runs separately, because it loses threads that other tests use.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn stuck_work_does_not_block_other_owners() {
    const OWNERS: usize = 12;
    super::set_max_stuck(Duration::from_secs(3));
    let lost_before = lost_so_far();
    let (ends, began) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let waits = |owner: String| {
        let (ends, began) = (ends.clone(), began.clone());
        tokio::spawn(async move {
            let work = move || {
                began.fetch_add(1, Relaxed);
                while !ends.load(Relaxed) {
                    wait_ms(5).unwrap();
                }
            };
            super::run_for(&owner, Workload::CpuBound, work).await
        })
    };
    // Each of these waits when the stuck work starts, and each lane has waiting work of its owner.
    let others: Vec<_> = (0..OWNERS).map(|owner| waits(format!("other {owner}"))).collect();
    let usual = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let own: Vec<_> = (0..4 * usual).map(|_| waits("stuck".to_owned())).collect();
    until(|| began.load(Relaxed) == others.len() + own.len()).await;
    let ended = ends.clone();
    let stuck = super::run_for("stuck", Workload::CpuBound, move || computes_until(&ended)).await;
    assert!(matches!(stuck, Err(ExecutorError::Stuck)), "{stuck:?}");
    assert!(lost_so_far() > lost_before && lost_now() > 0);

    // Every lane works, and new work runs.
    for owner in 0..2 * OWNERS {
        let name = format!("other {owner}");
        assert_eq!(
            super::run_for(&name, Workload::CpuBound, || wait_ms(1).map(|()| 3)).await.unwrap(),
            Ok(3)
        );
    }
    assert_eq!(super::run_for("stuck", Workload::CpuBound, || 4).await.unwrap(), 4);
    ends.store(true, Relaxed);
    for other in others {
        other.await.unwrap().unwrap();
    }
    let mut of_own = (0, 0);
    for own in own {
        match own.await.unwrap() {
            Ok(()) => of_own.0 += 1,
            Err(ExecutorError::Lost) => of_own.1 += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(of_own.0 > 0 && of_own.1 > 0, "{of_own:?}");
    // The thread returns and ends.
    until(|| lost_now() == 0).await;
}

/// A lane is free for other owners once its work has ended.
#[tokio::test]
async fn lanes_are_reused() {
    for owner in 0..300 {
        let owner = format!("owner {owner}");
        assert_eq!(super::run_for(&owner, Workload::Blocking, || 1).await.unwrap(), 1);
    }
    let lanes = LANES[Workload::Blocking as usize].lock().len();
    assert!(lanes < 64, "{lanes}");
}

fn rest(woken: &mut (dyn Future<Output = ()> + Unpin)) -> Result<(), WaitEnd> {
    wait(woken)
}

#[tokio::test]
async fn parallel_tasks_wait_concurrently_and_return_values_in_order() {
    let (give, taken) = oneshot::channel::<i32>();
    let values = run(move || {
        let mut give = Some(give);
        let mut taken = Some(taken);
        let base = 10;
        let give = || {
            wait_ms(5).unwrap();
            give.take().unwrap().send(1).unwrap();
            base
        };
        // The first piece ends only if the second one runs in the meantime.
        let take = || base + wait(taken.take().unwrap()).unwrap().unwrap();
        let works: Vec<Job<'_, i32>> = vec![Box::new(take), Box::new(give), Box::new(|| base + 2)];
        together(works, 2, |_| {}, |_| false, rest).map_err(|_| ())
    });
    assert_eq!(values.await.unwrap().unwrap(), [Some(11), Some(10), Some(12)]);
}

#[tokio::test]
async fn parallel_tasks_end_when_their_values_are_no_longer_needed() {
    let ended = Arc::new(AtomicBool::new(false));
    let held = DropMark(ended.clone());
    let values = run(move || {
        let mut held = Some(held);
        let hold = || {
            let _held = held.take();
            wait_ms(60_000).is_err()
        };
        let works: Vec<Job<'_, bool>> = vec![Box::new(hold), Box::new(|| true)];
        together(works, 5, |_| {}, |value| *value, rest).map_err(|_| ())
    });
    assert_eq!(values.await.unwrap().unwrap(), [None, Some(true)]);
    assert!(ended.load(Relaxed));

    let ended = Arc::new(AtomicBool::new(false));
    let held = DropMark(ended.clone());
    let work = run(move || {
        let mut held = Some(held);
        let hold = || {
            let _held = held.take();
            wait_ms(60_000).is_err()
        };
        let _ = together(vec![Box::new(hold) as Job<'_, bool>], 5, |_| {}, |_| false, rest);
    });
    tokio::select! {
        _ = work => panic!("it ended"),
        () = tokio::time::sleep(Duration::from_millis(30)) => {}
    }
    until(|| ended.load(Relaxed)).await;
}

#[tokio::test]
async fn an_abandoned_task_abandons_its_parent() {
    let ended = run(|| {
        let works: Vec<Job<'_, ()>> = vec![Box::new(|| wait_ms(1).unwrap_or_default()), Box::new(abandon)];
        let _ = together(works, 5, |_| {}, |()| false, rest);
    });
    assert!(matches!(ended.await, Err(ExecutorError::Abandoned)));
    assert_eq!(run(|| 3).await.unwrap(), 3);
}

#[tokio::test]
async fn parallel_tasks_nest() {
    let value = run(|| {
        let outer: Vec<Job<'_, i32>> = (0..3)
            .map(|outer| {
                let work = move || {
                    let inner = (0..3).map(|inner| {
                        let work = move || wait_ms(1).map_or(0, |()| outer * 3 + inner);
                        Box::new(work) as Job<'_, i32>
                    });
                    let values = together(inner.collect(), 2, |_| {}, |_| false, rest);
                    values.map_or(-100, |values| values.into_iter().flatten().sum())
                };
                Box::new(work) as Job<'_, i32>
            })
            .collect();
        together(outer, 3, |_| {}, |_| false, rest).map_or(-100, |values| values.into_iter().flatten().sum())
    });
    assert_eq!(value.await.unwrap(), 36);
}
