//! The page in a real browser. Every view shows its figures, without errors and without requests to other servers, and can be used with
//! the keyboard. The tests are skipped if there is no Chromium.

use nuq::calibrate::{Measure, Target, calibrate};
use nuq::{FittedModel, Model, NuqClassifier};
use nuq_server::{Config, Key, PictureSource};
use serde_json::json;

use crate::browser::Page;
use crate::common::{COLUMNS, Service, embeddings, rows};

/// A label that would run a script if it were inserted as markup.
const HOSTILE: &str = "<img src=x onerror=\"document.title='hacked'\">";
const VIEWS: [&str; 5] = ["now", "drift", "prediction", "map", "todo"];
/// For each view, an element that exists only when its data is shown.
const SHOWN: [&str; 5] = [
    "figure svg.drawing circle",
    "figure svg.drawing path.line-s0",
    ".neighbor b",
    "figure svg.drawing path.live",
    ".task",
];

/// A classifier with a hostile label and the scores of held-out rows.
fn model() -> Model<'static> {
    let labels: Vec<&str> = (0..300).map(|i| [HOSTILE, "dog", "bird"][i % 3]).collect();
    let mut model = NuqClassifier::params().n_neighbors(7).fit(&embeddings(&rows(300, 1)), &labels).unwrap();
    let held_out = model.predict(&embeddings(&rows(150, 2))).unwrap();
    let scores: Vec<f64> = held_out.iter().map(|prediction| Measure::Epistemic.of(prediction)).collect();
    let threshold = calibrate(Measure::Epistemic, &scores, None, Target::FalseAlarm(0.1)).unwrap();
    model.rules_mut().set_threshold("guard", threshold, &scores).unwrap();
    model.into()
}

/// A server with one model that has scored rows. The last scored rows are unlike its training rows.
fn service(change: impl FnOnce(&mut Config)) -> Service {
    let service = Service::with(|config| {
        nuq_io::save(&model(), &config.models[0].path).unwrap();
        config.models.truncate(1);
        config.ephemeral = true;
        change(config);
    });
    for (seed, shift) in [(11, 0.0), (12, 0.0), (13, 4.0)] {
        let values: Vec<f32> = rows(60, seed).into_iter().map(|value| value + shift).collect();
        let body = serde_json::json!({ "rows": values.chunks(COLUMNS).collect::<Vec<_>>() }).to_string();
        let headers = [("authorization", "Bearer write-key-0123456789")];
        let reply = service.request("POST", "/v1/models/animals/score", &headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    service
}

fn address(service: &Service, view: &str) -> String {
    format!("http://{}/#view={view}", service.address)
}

/// Waits until a view is the current one and the page contains the element `shown`.
fn wait_for_view(page: &mut Page, view: &str, shown: &str) {
    page.wait_for(&format!(
        "document.querySelector('nav [aria-current]')?.dataset.view === '{view}' && document.querySelector('{shown}')"
    ));
}

#[track_caller]
fn check_console(page: &Page, service: &Service) {
    assert_eq!(page.errors, Vec::<String>::new());
    let own = format!("http://{}/", service.address);
    let is_own = |url: &&String| {
        url.starts_with(&own) || url.starts_with(&format!("blob:{own}")) || *url == "about:blank"
    };
    let others: Vec<&String> = page.requests.iter().filter(|url| !is_own(url)).collect();
    assert!(others.is_empty(), "requests to other servers: {others:?}");
}

#[test]
fn every_view_shows_its_figures_without_errors_and_without_requests_to_other_servers() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|config| {
        let folder = config.models[0].path.parent().unwrap().join("pictures");
        std::fs::create_dir(&folder).unwrap();
        // One pixel.
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc\x60\0\0\0\x02\0\x01H\xaf\xa4q\0\0\0\0IEND\xaeB\x60\x82";
        (0..300).for_each(|row| std::fs::write(folder.join(format!("{row}.png")), png).unwrap());
        config.pictures = vec![PictureSource { model: None, location: folder.to_str().unwrap().to_owned() }];
    });
    for (width, scheme) in [(1400, "light"), (390, "dark")] {
        page.set_size(width, 900);
        page.set_color_scheme(scheme);
        for (view, shown) in VIEWS.into_iter().zip(SHOWN) {
            page.open(&address(&service, view));
            wait_for_view(&mut page, view, shown);
            let overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(overflow.as_i64().unwrap() <= 0, "{view} is wider than {width} px by {overflow}");
            let theme = page.evaluate("document.documentElement.dataset.theme");
            assert_eq!(theme, scheme);
            let unlabeled = page.evaluate(
                "[...document.querySelectorAll('svg.drawing')].filter(svg => !svg.getAttribute('aria-label')).length \
                 + [...document.querySelectorAll('img')].filter(image => !image.hasAttribute('alt')).length",
            );
            assert_eq!(unlabeled, 0, "{view}: figures or pictures without a description");
        }
        page.open(&address(&service, "prediction"));
        page.wait_for("document.querySelector('.neighbor img')?.naturalWidth === 1");
        page.open(&address(&service, "todo"));
        page.wait_for("document.querySelector('.task form') && document.querySelector('.task-pictures img')?.naturalWidth === 1");
    }
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn labels_are_shown_as_text() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    for (view, shown) in VIEWS.into_iter().zip(SHOWN) {
        page.open(&address(&service, view));
        wait_for_view(&mut page, view, shown);
        assert_eq!(page.evaluate("document.querySelector('img[src=x]')"), serde_json::Value::Null);
    }
    page.open(&address(&service, "prediction"));
    page.wait_for(&format!(
        "[...document.querySelectorAll('.item-label')].some(label => label.textContent === {HOSTILE:?})"
    ));
    assert_eq!(page.evaluate("document.title"), "One prediction · nuq");
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn a_view_is_opened_and_a_figure_is_read_with_keys() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    page.open(&address(&service, "now"));
    page.wait_for("document.querySelector('figure svg.drawing circle')");
    // Tab reaches the key button and the link of the view `drift`, and Enter opens this view.
    let mut focused = vec![];
    for _ in 0..12 {
        page.press("Tab");
        let name = page.evaluate("document.activeElement.dataset.view ?? document.activeElement.id ?? ''");
        focused.push(name.as_str().unwrap_or_default().to_owned());
        if focused.last().is_some_and(|name| name == "drift") {
            break;
        }
    }
    assert!(
        focused.iter().any(|name| name == "key-button") && focused.last().is_some_and(|name| name == "drift"),
        "{focused:?}"
    );
    page.press("Enter");
    wait_for_view(&mut page, "drift", SHOWN[1]);
    // The arrow keys show the values of a figure.
    let tip = "document.getElementById('tip')";
    page.repeat_until(&format!("!{tip}.hidden && {tip}.textContent.includes('wealth')"), |page| {
        page.evaluate("document.querySelector('figure svg.drawing')?.focus()");
        page.press("ArrowRight");
    });
    page.repeat_until(&format!("{tip}.hidden"), |page| page.press("Escape"));
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn the_key_is_requested_and_kept_in_the_tab() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|config| {
        config.read_key = Some(Key::new("read-key-0123456789", "test").unwrap());
        config.write_key = Some(Key::new("write-key-0123456789", "test").unwrap());
    });
    page.open(&address(&service, "now"));
    page.wait_for("document.querySelector('main')?.innerText.includes('This server needs a key')");
    page.evaluate("document.getElementById('key-button').click()");
    page.wait_for("document.activeElement?.id === 'key'");
    page.type_text("read-key-0123456789");
    page.press("Enter");
    page.wait_for("document.querySelector('figure svg.drawing circle')");
    assert_eq!(page.evaluate("sessionStorage.length"), 1);
    assert_eq!(page.evaluate("Object.values(localStorage).some(value => value.includes('key'))"), false);
    // The browser logs the first requests, which had no key, as errors.
    page.errors.retain(|error| !error.contains("401"));
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn rows_of_a_file_are_explained_and_not_recorded() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    let file = service.path("rows.csv");
    std::fs::write(&file, "2,0,0,2,0\n9,9,9,9,9\n").unwrap();
    let recorded = || service.get("/v1/models/animals/recent?limit=500").json().as_array().unwrap().len();
    // Rows are recorded by another thread.
    while recorded() < 180 {
        std::thread::yield_now();
    }
    page.open(&address(&service, "prediction"));
    page.wait_for("document.querySelector('.neighbor b')");
    page.evaluate("[...document.querySelectorAll('.choice button')].find(button => button.textContent === 'From a file').click()");
    page.choose_file("#file", &file);
    page.wait_for("document.querySelectorAll('.list li').length === 2 && document.querySelector('.detail').innerText.includes('Row 0')");
    assert_eq!(recorded(), 180);
    // The decision (“Accepted: …” or “Rejected: …”) is that of the current thresholds, because a row of a file has no earlier decision.
    let text = page.evaluate("document.querySelector('.detail').innerText").as_str().unwrap().to_owned();
    assert!(text.contains("ed: ") && !text.contains("when the row was scored"), "{text}");
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn a_row_has_no_decision_if_no_threshold_was_applied() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|config| {
        let mut model = model();
        model.rules_mut().remove("guard");
        nuq_io::save(&model, &config.models[0].path).unwrap();
    });
    page.open(&address(&service, "map"));
    wait_for_view(&mut page, "map", SHOWN[3]);
    page.evaluate("[...document.querySelectorAll('.choice button')].find(button => button.textContent === 'Live rows').click()");
    let tip = "document.getElementById('tip')";
    let shown = format!("!{tip}.hidden && {tip}.textContent.includes('Live row')");
    page.repeat_until(&format!("{shown} && !{tip}.textContent.includes('decision')"), |page| {
        page.evaluate("document.querySelector('figure svg.drawing')?.focus()");
        page.press("ArrowRight");
    });
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn a_decision_that_the_current_thresholds_do_not_confirm_is_explained() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    page.open(&address(&service, "prediction"));
    page.wait_for("document.querySelector('.neighbor b')");
    let shows = |text: &str| format!("document.querySelector('.detail').innerText.includes('{text}')");
    let before = shows("The decision above was made when the row was scored.");
    // The end of “Accepted: ” or “Rejected: ”.
    page.wait_for(&format!("!{before} && {}", shows("ed: ")));
    // The removal of a training row removes the threshold. The details of the selected row are updated without a click.
    let removed = service.post("/v1/models/animals/rows/remove", r#"{"ids": [1]}"#);
    assert_eq!(removed.status, 200, "{}", removed.text());
    page.wait_for(&format!(
        "{before} && {}",
        shows("The model now has no threshold that applies to this row.")
    ));
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn the_report_of_a_lost_connection_mentions_former_data_only_if_the_view_has_data() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    page.open(&address(&service, "now"));
    page.wait_for("document.querySelector('figure svg.drawing circle')");
    page.evaluate("{ window.fetch = () => Promise.reject(new TypeError('no network')); document.dispatchEvent(new Event('visibilitychange')); }");
    let shows = |text: &str| format!("document.querySelector('main').innerText.includes('{text}')");
    let (lost, former) =
        (shows("The server cannot be reached"), shows("The data below is from the last answer."));
    page.wait_for(&format!("{lost} && {former}"));
    // Another view has no data yet.
    page.evaluate("location.hash = '#view=drift'");
    page.wait_for(&format!("{lost} && !{former}"));
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn a_row_is_labeled_and_the_change_is_undone() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    let rows_of_model = || service.get("/v1/models/animals").json()["rows"].as_u64().unwrap();
    page.open(&address(&service, "todo"));
    page.wait_for("document.querySelector('.task form')");
    page.evaluate("{ const form = document.querySelector('.task form'); form.querySelector('input').value = 'bird'; form.requestSubmit(); }");
    page.wait_for("document.querySelector('.message').innerText.includes('with the label “bird”')");
    assert_eq!(rows_of_model(), 301);
    // The message names the threshold that the change removed, and has a button that undoes the change.
    page.wait_for("document.querySelector('.message').innerText.includes('removed the rule “guard”')");
    page.evaluate("document.querySelector('.message button').click()");
    page.wait_for("document.querySelector('.message').innerText.includes('Undone')");
    assert_eq!(rows_of_model(), 300);
    // A button in the list of changes undoes the undo.
    page.wait_for("document.querySelectorAll('tbody tr').length === 2 && document.querySelectorAll('td button').length === 1");
    page.evaluate("document.querySelector('td button').click()");
    page.wait_for("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(rows_of_model(), 301);
    // The button of a label adds a row with this label. A skipped row is hidden until the skip is undone.
    page.wait_for("document.querySelector('.task form button')");
    // A double click adds one row.
    page.evaluate("{ const add = document.querySelector('.task form button'); add.click(); add.click(); }");
    page.wait_for("document.querySelectorAll('tbody tr').length === 4");
    assert_eq!(rows_of_model(), 302);
    page.wait_for("document.querySelector('.task form')");
    let first = page.evaluate("document.querySelector('.task').dataset.id").as_str().unwrap().to_owned();
    page.evaluate("document.querySelector('.task .quiet').click()");
    page.wait_for(&format!(
        "document.querySelector('.task') && !document.querySelector('.task[data-id=\"{first}\"]')"
    ));
    page.evaluate("document.querySelector('.message button').click()");
    page.wait_for(&format!("document.querySelector('.task[data-id=\"{first}\"]')"));
    assert_eq!(rows_of_model(), 302);
    check_console(&page, &service);
    drop(page);
    service.stop();
}

#[test]
fn a_new_class_is_created_only_after_confirmation() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    let classes = || service.get("/v1/models/animals").json()["classes"].as_array().unwrap().len();
    let label = "{ const form = document.querySelector('.task form'); form.querySelector('input').value = 'brid'; form.requestSubmit(); }";
    let question = "document.querySelector('.message').innerText.includes('no class “brid”')";
    page.open(&address(&service, "todo"));
    page.wait_for("document.querySelector('.task form')");
    page.evaluate(label);
    page.wait_for(question);
    // The first button of the question has the focus. The second button cancels.
    assert_eq!(page.evaluate("document.activeElement.textContent"), "Create the class");
    page.press("Tab");
    page.press("Enter");
    page.wait_for(&format!("!{question}"));
    assert_eq!(classes(), 3);
    page.evaluate(label);
    page.wait_for(question);
    page.press("Enter");
    page.wait_for("document.querySelector('.message').innerText.includes('with the label “brid”')");
    assert_eq!(classes(), 4);
    // The row leaves the list also if its label was sent with Enter and the field still has the focus.
    page.wait_for("document.querySelector('.task form')");
    let first = page.evaluate("document.querySelector('.task').dataset.id").as_str().unwrap().to_owned();
    page.evaluate(
        "{ const field = document.querySelector('.task input'); field.value = 'brid'; field.focus(); }",
    );
    page.press("Enter");
    page.wait_for(&format!("!document.querySelector('.task[data-id=\"{first}\"]')"));
    // The browser logs the request with the refused label as an error.
    page.errors.retain(|error| !error.contains("422"));
    check_console(&page, &service);
    drop(page);
    service.stop();
}

/// The page of routes is at `/docs`.
#[test]
fn an_alarm_is_acknowledged_and_the_page_of_routes_follows_the_color_scheme() {
    let Some(mut page) = Page::start() else { return };
    let service = service(|_| {});
    page.open(&address(&service, "drift"));
    // The share of a few rows is not compared with the expected share.
    let verdict = "import('/page/views/now.js').then(({ verdict }) => \
                   [19, 20, 400].map(rows => verdict(rows, rows, { low: 0.0, high: 0.1 }) ?? null))";
    assert_eq!(page.evaluate(verdict), json!([null, "more", "more"]));
    page.wait_for("document.querySelector('.action:not([hidden]) button')");
    page.wait_for("document.querySelector('.summary').innerText.includes('The alarm was raised')");
    page.evaluate("document.querySelector('.action button').click()");
    page.wait_for("document.querySelector('.message').innerText.includes('is acknowledged')");
    page.wait_for("document.querySelector('.summary').innerText.startsWith('No drift since')");
    page.wait_for("document.querySelector('.finding').innerText.includes('For each start of the test')");
    assert_eq!(page.evaluate("document.querySelector('.action').hidden"), true);
    // The history has the alarm, in the figure and in a table.
    page.wait_for("document.querySelector('section tbody tr')?.innerText.includes('acknowledgement')");
    page.wait_for("document.querySelector('figure svg.drawing path.line-muted:not(.dashed)')");
    assert_eq!(service.get("/v1/models/animals/drift").json()["rows"], 0);
    page.open(&format!("http://{}/docs", service.address));
    for scheme in ["light", "dark"] {
        page.set_color_scheme(scheme);
        page.wait_for(&format!(
            "document.querySelector('article') && document.documentElement.dataset.theme === '{scheme}'"
        ));
    }
    assert_eq!(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(16, 19, 23)");
    check_console(&page, &service);
    drop(page);
    service.stop();
}
