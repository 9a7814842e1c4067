//! Values out of CSV files, in scripts, commands and requests.

use std::fs;

use crate::bench::Place;
use crate::requests::kept_nowhere;
use crate::servers::{Postgres, Redis};

const USERS: &str = "id,email\n1,ada@example.org\n2,\"grace, h@example.org\"\n3,o'brien@example.org\n";

fn file(place: &Place, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn statements_have_the_values_of_a_row() {
    let place = Place::new();
    let postgres = Postgres::start(place.path());
    postgres.sql("CREATE TABLE seen (id int, email text, twice int)");
    let users = file(&place, "users.csv", USERS);
    // One plain statement; one of several steps; one with all values in its text.
    let plain = file(&place, "plain.sql", "INSERT INTO public.seen VALUES (:id, :email, 0);\n");
    let steps = file(
        &place,
        "steps.sql",
        "\\set twice :id * 2\nBEGIN;\nINSERT INTO public.seen VALUES (:id, :email, :twice);\nEND;\n",
    );
    let in_order = format!("{users}@in-order");
    for (script, csv, twice) in [(&plain, &in_order, "0"), (&steps, &in_order, "4"), (&plain, &users, "0")] {
        postgres.sql("TRUNCATE seen");
        let on = postgres.url();
        let ran = place.line(&format!("drive -f {script} --csv {csv} --on {on} --clients 2 --ops 30 --allow-writes"));
        // They may be secrets.
        kept_nowhere(&place, &ran.expect(0), &["@example.org"]);
        let counts = postgres
            .sql("SELECT string_agg(n::text, ' ') FROM (SELECT count(*) n FROM seen GROUP BY id ORDER BY id) c");
        match csv == &in_order {
            true => assert_eq!(counts, "20 20 20"),
            false => assert_eq!(counts.split(' ').count(), 3, "{counts}"),
        }
        assert_eq!(postgres.sql("SELECT count(*) FROM seen WHERE id = 2 AND email <> 'grace, h@example.org'"), "0");
        assert_eq!(postgres.sql("SELECT max(twice) FROM seen WHERE id = 2"), twice);
    }
}

#[test]
fn commands_have_the_values_of_a_row_of_each_file() {
    let place = Place::new();
    let redis = Redis::start_as_packaged(place.path());
    let users = file(&place, "users.csv", USERS) + "@in-order";
    let shops = file(&place, "shops.csv", "shop\n007\n") + "@in-order";
    let set = file(&place, "set.redis", "HSET user\\::id email :email shop :shop\n");
    let on = redis.url();
    place.line(&format!("drive -f {set} --csv {users} --csv {shops} --on {on} --ops 9 --allow-writes")).expect(0);
    assert_eq!(redis.ask(&["DBSIZE"]), "3");
    assert_eq!(redis.ask(&["HGET", "user:2", "email"]), "grace, h@example.org");
    assert_eq!(redis.ask(&["HGET", "user:3", "shop"]), "007");
}

#[test]
fn what_is_wrong_with_a_file_is_said_before_anything_runs() {
    let place = Place::new();
    let script = file(&place, "own.sql", "SELECT :email;\n");
    for (text, wanted) in [
        (&b"id,email\n1,\xff\n"[..], "line 2 is not UTF-8"),
        (b"id,email\n1,a\n2,\"b\n3,c\n", "users.csv:3: a quote is never closed"),
        (b"id,emial\n1,a\n", "did you mean `:emial`?"),
    ] {
        let users = file(&place, "users.csv", text);
        place.run(&["drive", "-f", &script, "--csv", &users, "--on", "sqlite"]).expect(2).says(wanted);
    }
    let users = file(&place, "users.csv", USERS);
    place.refuses(&[
        (
            &format!("drive --on sqlite -f {script} --csv nowhere.csv"),
            "the CSV file `nowhere.csv` cannot be read: No such file",
        ),
        ("drive --on sqlite kv:a --csv nowhere.csv", "unknown key `csv`"),
        (&format!("drive http --on http --csv {users}"), "`csv` gives values to requests, and there is none"),
    ]);
    assert!(place.all_runs().is_empty());
}
