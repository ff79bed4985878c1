// Every step is counted. The terminal, the metrics file and the run's record show only some of the
// steps, at fixed intervals of time.

#include "runtime/trainer/loop/training_reporter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"

namespace dlrun::trainer {
namespace {

using nlohmann::ordered_json;
using std::chrono::duration;

constexpr duration<double> kShowEvery{0.1};    // for the line that is rewritten on a terminal
constexpr duration<double> kPrintEvery{10.0};  // for progress lines that are not rewritten
constexpr duration<double> kReportEvery{1.0};  // for metrics and the run's record

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string rate_text(double per_second) {
  return per_second < 10'000 ? fmt::format("{:.0f}", per_second)
                             : fmt::format("{:.1f}k", per_second / 1000);
}

constexpr std::size_t kMaxTextBytes = 256;  // of a text in the run's record

/// Formats "test F1 0.9123 (macro 0.8876)" with `before` in front. Returns an empty string without
/// scores.
std::string f1_text(std::string_view before, const std::optional<LabelScores>& scores) {
  return scores ? fmt::format("{}test F1 {:.4f} (macro {:.4f})", before, scores->micro_f1,
                              scores->macro_f1)
                : "";
}

void add_f1(ordered_json& fields, const std::optional<LabelScores>& scores) {
  if (!scores) return;
  fields["test_f1_micro"] = scores->micro_f1;
  fields["test_f1_macro"] = scores->macro_f1;
}

ordered_json classes_json(const LabelScores& scores) {
  ordered_json all = ordered_json::array();
  for (const ClassScore& one : scores.classes) {
    all.push_back({{"precision", one.precision},
                   {"recall", one.recall},
                   {"f1", one.f1},
                   {"samples", one.sample_count}});
  }
  return all;
}

}  // namespace

Result<TrainingReporter> TrainingReporter::open(const Options& options) {
  TrainingReporter reporter(options);
  if (!options.is_main || !options.metrics) return reporter;
  const std::string path = options.metrics->string();
  reporter.metrics_ = UniqueFd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!reporter.metrics_.is_open())
    return fail(Errc::kIo, "{}: cannot open: {}", path, errno_text(errno));
  // A killed attempt may have left an incomplete line; do not append to it.
  char last = '\n';
  if (const off_t size = lseek(reporter.metrics_.get(), 0, SEEK_END);
      size > 0 && pread(reporter.metrics_.get(), &last, 1, size - 1) == 1 && last != '\n') {
    if (auto written = write_all(reporter.metrics_.get(), "\n"); !written)
      return within(path, written.error());
  }
  return reporter;
}

void TrainingReporter::note(const std::string& line) {
  if (options_.is_main) print_line(line);
}

void TrainingReporter::print_line(const std::string& line) {
  if (line_width_ > 0) std::fputs("\r\x1b[K", stdout);
  line_width_ = 0;
  std::fputs(line.c_str(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

/// Returns the mean of StepReport::work in milliseconds over the steps since the last call, and
/// starts a new mean.
double TrainingReporter::take_work_ms() {
  const auto steps = std::exchange(steps_since_reported_, 0);
  const auto work = std::exchange(work_since_reported_, {});
  return steps == 0 ? 0 : 1e3 * work.count() / static_cast<double>(steps);
}

void TrainingReporter::report_own_work(const StepReport& report, Clock::time_point now) {
  if (options_.store == nullptr || now - reported_at_ < kReportEvery) return;
  reported_at_ = now;
  remember_failure(options_.store->report_progress(
      ordered_json{{"step", report.step}, {"work_ms", take_work_ms()}}.dump()));
}

void TrainingReporter::report_step(const StepReport& report) {
  const Clock::time_point now = Clock::now();
  ++steps_since_reported_;
  work_since_reported_ += report.work;
  if (!options_.is_main) return report_own_work(report, now);
  if (part_done_at_start_ < 0) part_done_at_start_ = report.part_done;
  samples_since_shown_ += report.samples;
  samples_since_reported_ += report.samples;

  const double elapsed_seconds = duration<double>(now - start_).count();
  const double seconds_left =
      report.part_done > part_done_at_start_
          ? elapsed_seconds * (1 - report.part_done) / (report.part_done - part_done_at_start_)
          : 0;
  const auto line = [&](double rate) {
    return fmt::format(
        "epoch {}/{}  step {}  {:3.0f}%  loss {:.4f}  accuracy {:.4f}  {} samples/s  {} left",
        report.epoch, options_.epochs, report.step, 100 * report.part_done, report.loss,
        report.accuracy, rate_text(rate), duration_text(seconds_left));
  };
  if (now - shown_at_ >= (options_.is_terminal ? kShowEvery : kPrintEvery)) {
    const std::string text =
        line(static_cast<double>(samples_since_shown_) / duration<double>(now - shown_at_).count());
    if (options_.is_terminal) {
      fmt::print("\r{}\x1b[K", text);
      std::fflush(stdout);
      line_width_ = text.size();
    } else {
      print_line(text);
    }
    shown_at_ = now;
    samples_since_shown_ = 0;
  }
  if (now - reported_at_ >= kReportEvery) {
    const double rate =
        static_cast<double>(samples_since_reported_) / duration<double>(now - reported_at_).count();
    const ordered_json fields{{"epoch", report.epoch},      {"step", report.step},
                              {"loss", report.loss},        {"accuracy", report.accuracy},
                              {"lr", report.learning_rate}, {"samples_per_s", rate}};
    write_metrics(fields.dump());
    if (options_.store != nullptr) {
      ordered_json record = fields;
      record["epochs"] = options_.epochs;
      record["steps"] = report.total_steps;
      record["work_ms"] = take_work_ms();
      remember_failure(options_.store->report_progress(record.dump()));
    }
    reported_at_ = now;
    samples_since_reported_ = 0;
  }
}

void TrainingReporter::report_epoch(const EpochReport& report) {
  if (!options_.is_main) return;
  print_line(fmt::format(
      "epoch {}/{}  loss {:.4f}  accuracy {:.4f}  test loss {:.4f}  test accuracy {:.4f}{}  {} "
      "samples/s",
      report.epoch, options_.epochs, report.loss, report.accuracy, report.test_loss,
      report.test_accuracy, f1_text("  ", report.label_scores), rate_text(report.samples_per_s)));
  ordered_json fields{{"epoch", report.epoch},
                      {"step", report.step},
                      {"loss", report.loss},
                      {"accuracy", report.accuracy},
                      {"samples_per_s", report.samples_per_s},
                      {"test_loss", report.test_loss},
                      {"test_accuracy", report.test_accuracy},
                      {"precision", options_.precision}};
  add_f1(fields, report.label_scores);
  if (report.label_scores) fields["test_classes"] = classes_json(*report.label_scores);
  write_metrics(fields.dump());
}

void TrainingReporter::report_checkpoint(std::uint64_t step) {
  if (!options_.is_main || options_.store == nullptr) return;
  remember_failure(options_.store->report_progress(ordered_json{{"checkpoint", step}}.dump()));
}

void TrainingReporter::report_result(const FinalReport& report) {
  if (!options_.is_main) return;
  print_line(fmt::format(
      "test accuracy {:.4f}{}, test loss {:.4f} on {} samples after {} steps in {:.1f} s ({} "
      "samples/s, {})",
      report.test_accuracy, f1_text(", ", report.label_scores), report.test_loss,
      report.test_samples, report.steps, report.seconds, rate_text(report.samples_per_s),
      options_.precision));
  if (report.label_scores) print_classes(*report.label_scores);
  print_line(fmt::format("parameters {} equal on {} rank{}", report.parameters_hash, report.ranks,
                         report.ranks == 1 ? "" : "s"));
  if (options_.store == nullptr) return;
  ordered_json fields{{"final", true},
                      {"test_accuracy", report.test_accuracy},
                      {"test_loss", report.test_loss},
                      {"parameters", report.parameters_hash},
                      {"steps", report.steps},
                      {"seconds", report.seconds},
                      {"samples_per_s", report.samples_per_s},
                      {"precision", options_.precision}};
  add_f1(fields, report.label_scores);
  if (report.label_scores) {
    const auto add_classes = [&](const char* name, double ClassScore::*value) {
      const std::string text = per_class_text(*report.label_scores, value, kMaxTextBytes);
      if (!text.empty()) fields[name] = text;
    };
    add_classes("class_precision", &ClassScore::precision);
    add_classes("class_recall", &ClassScore::recall);
    add_classes("class_f1", &ClassScore::f1);
  }
  remember_failure(options_.store->report_progress(fields.dump()));
}

void TrainingReporter::print_classes(const LabelScores& scores) {
  print_line("class  samples  precision  recall     F1");
  for (std::size_t k = 0; k < scores.classes.size(); ++k) {
    const ClassScore& one = scores.classes[k];
    print_line(fmt::format("{:5}  {:7}  {:9.3f}  {:6.3f}  {:5.3f}", k, one.sample_count,
                           one.precision, one.recall, one.f1));
  }
}

void TrainingReporter::write_metrics(const std::string& json) {
  if (!metrics_.is_open()) return;
  ordered_json line{{"time", utc_timestamp(std::chrono::system_clock::now())},
                    {"attempt", options_.attempt}};
  line.update(parse_json(json));
  if (auto written = write_all(metrics_.get(), line.dump() + "\n"); !written)
    remember_failure(within(options_.metrics->string(), written.error()));
}

void TrainingReporter::remember_failure(const Result<>& result) {
  if (!result && status_) status_ = within("cannot record progress", result.error());
}

}  // namespace dlrun::trainer
