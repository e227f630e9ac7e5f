//! Members that do not have to beat, judged by their kind.

use jiff::SignedDuration;

use super::site::Site;

const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

/// How long it is past its patience that something was heard then; negative before.
fn overdue(site: &Site, heard: jiff::Timestamp) -> i64 {
    let excused = site.app.liveness.excused(&site.app, heard, PATIENCE);
    site.app.now().duration_since(heard).saturating_sub(PATIENCE).saturating_sub(excused).as_secs()
}

#[tokio::test]
async fn silence_counts_while_the_server_listens() {
    let mut site = Site::settled().await;
    let heard = site.app.now();
    site.pass(59, |_, _| {}).await;
    assert!((-2..=0).contains(&overdue(&site, heard)), "{}", overdue(&site, heard));
    site.pass(3, |_, _| {}).await;
    assert!((1..=2).contains(&overdue(&site, heard)), "{}", overdue(&site, heard));
}

/// Longer than every patience; the first to notice the pause is the question itself.
#[tokio::test]
async fn a_pause_is_excused_and_gives_time_to_be_heard_again() {
    let mut site = Site::settled().await;
    let heard = site.app.now();
    site.pass(50, |_, _| {}).await;
    site.hand.pass(seconds(3600));
    assert!(overdue(&site, heard) < -50, "{}", overdue(&site, heard));
    // After an outage so long, members that backed off have five minutes to return.
    site.pass(298, |_, _| {}).await;
    assert!(overdue(&site, heard) <= 0, "{}", overdue(&site, heard));
    site.pass(5, |_, _| {}).await;
    assert!(overdue(&site, heard) > 0, "{}", overdue(&site, heard));
    // What is heard after the pause has no excuse by it.
    let heard = site.app.now();
    site.pass(62, |_, _| {}).await;
    assert!((1..=3).contains(&overdue(&site, heard)), "{}", overdue(&site, heard));
}

#[tokio::test]
async fn a_restart_is_excused() {
    let mut site = Site::settled().await.restart().await;
    let heard = site.app.now() - seconds(3600);
    assert!(overdue(&site, heard) < -50, "{}", overdue(&site, heard));
    // After a start all members have the time in which those that backed off return.
    site.pass(290, |_, _| {}).await;
    assert!(overdue(&site, heard) <= 0, "{}", overdue(&site, heard));
    site.pass(20, |_, _| {}).await;
    assert!(overdue(&site, heard) > 0, "{}", overdue(&site, heard));
}
