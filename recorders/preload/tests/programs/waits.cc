// What C++ makes of waiting: `wait_for` is pthread_cond_clockwait, atomics and their kin are futexes.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

static bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(stat, text);
  auto name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] == 'S';
}

int main() {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock<std::mutex> lock(mutex);
  using namespace std::chrono_literals;
  for (int i = 0; i < 3; i++)
    if (condition.wait_for(lock, 2ms) != std::cv_status::timeout) return 9;
  lock.unlock();
  std::atomic<int> word = 0;
  std::thread waker([&, waiter = gettid()] {
    while (!sleeps(waiter)) std::this_thread::yield();
    word = 1;
    word.notify_all();
  });
  word.wait(0);
  waker.join();
  return word == 1 ? 0 : 9;
}
