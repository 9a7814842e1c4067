//! A user's own commands on a real Redis.

use crate::bench::{Place, Ran};
use crate::servers::Redis;

const CART: &str = "# what a user does\n\\set user random(7, 7)\n\\set item random(1, 3)\n\
    HINCRBY cart::user item\\::item 1\nRPUSH log::user \"i:item j\"\nSADD seen::user :item\n\
    ZADD top :item item::item\nXADD orders * user :user\nEXPIRE cart::user 3600\n";
const ORDER: &str = "MULTI\nINCR orders_placed\nHSET last n 1\nEXEC\n";
const LIMIT: &str = "\\set user random(1, 4)\n\
    EVAL \"local n = redis.call('INCR', KEYS[1])\n if n == 1 then redis.call('EXPIRE', KEYS[1], 60) end return n\" 1 rate::user";

fn file(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn drive(place: &Place, files: &[&str], url: &str, more: &str) -> Ran {
    place.line(format!("drive -f {} --on {url} --ops 50 --warmup 0s --full {more}", files.join(" -f ")).trim())
}

#[test]
fn commands_of_every_sort_do_what_they_say() {
    let place = Place::new();
    let server = Redis::start_as_packaged(place.path());
    let url = server.url();
    let files = [("cart.redis", CART), ("order.redis", ORDER), ("limit.redis", LIMIT)];
    let [cart, order, limit] = files.map(|(name, text)| file(&place, name, text));
    // Keys that the script names itself belong to the server: removal needs permission.
    let refused = drive(&place, &[&cart], &url, "").expect(2);
    refused.says("cart.redis:4: this may change data on … HINCRBY cart:{} item:{} 1 … --allow-writes");
    assert_eq!(server.ask(&["DBSIZE"]), "0");
    let ran = drive(&place, &[&cart], &url, "--allow-writes").expect(0).says("cart/1 HINCRBY cart::user");
    assert!(ran.err.contains("CHANGE EXISTING DATA by: HINCRBY"), "{ran:?}");
    let ask = |words: &[&str]| server.ask(words);
    assert_eq!((ask(&["LLEN", "log:7"]).as_str(), ask(&["XLEN", "orders"]).as_str()), ("50", "50"));
    assert_eq!((ask(&["SCARD", "seen:7"]).as_str(), ask(&["ZCARD", "top"]).as_str()), ("3", "3"));
    let items: i64 = ask(&["HVALS", "cart:7"]).lines().map(|line| line.parse::<i64>().unwrap()).sum();
    assert_eq!(items, 50);
    assert!(ask(&["LINDEX", "log:7", "0"]).starts_with('i') && ask(&["TTL", "cart:7"]).parse::<i64>().unwrap() > 3_000);
    drive(&place, &[&order], &url, "--allow-writes").expect(0).says("order/4 EXEC");
    assert_eq!(ask(&["GET", "orders_placed"]), "50");
    let weighted = [format!("{order}@1"), format!("{limit}@4")];
    drive(&place, &[&weighted[0], &weighted[1]], &url, "--allow-writes --clients 2").expect(0);
    let placed: u32 = ask(&["GET", "orders_placed"]).parse().unwrap();
    assert!((55..=90).contains(&placed), "a fifth of 100 operations, by lot, after 50: {placed}");
    // What only reads needs no leave, and one command without steps goes in a pipeline.
    let read = file(&place, "read.redis", "\\set user random(7, 7)\nHGETALL cart::user\n");
    drive(&place, &[&read], &url, "--depth 8").expect(0);
    // A read that finds nothing is counted as such.
    let miss = file(&place, "miss.redis", "\\set user random(1, 9)\nGET nobody::user\n");
    drive(&place, &[&miss], &url, "").expect(0).says("miss: 50 of 50 found nothing (100 %)");
    assert_eq!(place.driven()["not_found"][0]["count"], 50);
    assert_eq!(ask(&["EXISTS", "plimsoll:runs"]), "0");
    // They need no keys of Plimsoll's own; what does is refused, and says which.
    ask(&["ACL", "SETUSER", "app", "on", "nopass", "~app:*", "+@all"]);
    let url = url.replace("redis+unix://", "redis+unix://app@");
    let own = file(&place, "own.redis", "INCR app:n\n");
    drive(&place, &[&own], &url, "--allow-writes").expect(0);
    drive(&place, &[&own], &url, "--allow-writes --no-load").expect(0);
    assert_eq!(ask(&["GET", "app:n"]), "100");
    place.line(&format!("drive kv --on {url} --set records=10 --ops 1")).expect(8).says("NOPERM … ~plimsoll:*");
    // Nor do they need INFO, or anything else that they do not ask for.
    ask(&["ACL", "SETUSER", "app", "-@all", "+incr"]);
    drive(&place, &[&own], &url, "--allow-writes --no-load").expect(0);
    assert_eq!(ask(&["GET", "app:n"]), "150");
}

#[test]
fn a_setup_fills_a_private_server_and_answers_steer_a_script() {
    let place = Place::new();
    let read = file(
        &place,
        "read.redis",
        "\\set id random(1, 100 * :scale)\nGET k::id\n\\gset v\n\\if :v != :id\nLPUSH k:1 x\n\\endif\n",
    );
    let setup =
        "setup=EVAL \"for i = 1, 100 * :scale do redis.call('SET', 'k\\:' .. i, i) end\" 0".replace(' ', "\u{a0}");
    drive(&place, &[&read], "redis", &format!("--set {setup} --set scale=3")).expect(0).says("read/1 GET k::id");
    let wrong = drive(&place, &[&read], "redis", "--set setup=LPUSH\u{a0}k").expect(2);
    wrong.says("`setup`:  … wrong number of arguments");
}

#[test]
fn what_is_wrong_with_a_command_is_said() {
    let place = Place::new();
    let server = Redis::start_as_packaged(place.path());
    let url = server.url();
    server.ask(&["SET", "text", "x"]);
    let wrong = |text: &str| drive(&place, &[&file(&place, "own.redis", text)], &url, "--allow-writes");
    for (text, code, words) in [
        ("HINCRB a b 1", 2, "operation `own`:  … knows no command HINCRB"),
        ("client reply off", 2, "CLIENT REPLY has the server answer otherwise"),
        ("GET user::who", 2, "undefined variable `:who` … own.redis:1:10"),
        // Errors are counted by their class.
        ("LPUSH text x", 1, "50 × rejected WRONGTYPE"),
        ("INCR text", 1, "50 × rejected ERR"),
        ("MULTI\nLPUSH text x\nEXEC", 1, "50 × rejected WRONGTYPE"),
    ] {
        wrong(text).expect(code).says(words);
    }
    // Another client changes a watched key first: a further try may work.
    let watch = file(&place, "watch.redis", "WATCH n\nGET n\n\\gset n\nMULTI\nINCR n\nEXEC\n");
    let options = "--allow-writes --clients 4 --set max_tries=1000";
    drive(&place, &[&watch], &url, options).expect(0).says("watch retried … retried after a conflict, ");
    assert_eq!(server.ask(&["GET", "n"]), "200");
    let ran = drive(&place, &[&watch], "redis", "--set redis.nodes=3").expect(2);
    ran.says("a cluster takes no commands of your own");
}
