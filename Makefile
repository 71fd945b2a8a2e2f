# Thin front of CMake: `make demo` and `make test` are all that a newcomer needs.

JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
BUILD = build/release
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: help deps build demo test asan asan-all tsan clang clang-build coverage tidy format check-format bench install clean

help:
	@sed -n 's/^## //p' Makefile

## make demo      install what is missing, build, answer a prompt with the bundled model
demo: build
	@echo
	$(BUILD)/bin/lily run --no-think --seed 1 -p "What is the capital of France?"
	$(BUILD)/bin/lily run --no-think --seed 1 --tools models/demo/tools.json -p "What is the weather in Oslo?"
	$(BUILD)/bin/lily run --no-think --seed 1 --max-tokens 80 -p "Tell me a story about a fox."

## make deps      install build packages (apt or Homebrew); does nothing when all are there
deps:
	@tools/install_deps.sh

## make build     release binary build/release/bin/lily
build: deps
	@mkdir -p build
	@cmake --preset release $(CMAKE_ARGS) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS) --target lily

## make test      build everything and run all tests
test: deps
	@mkdir -p build
	cmake --preset release $(CMAKE_ARGS) > build/configure.log || { cat build/configure.log; exit 1; }
	cmake --build $(BUILD) -j $(JOBS)
	$(CTEST) --test-dir $(BUILD)

## make asan      the tests under AddressSanitizer and UndefinedBehaviorSanitizer, without the long numeric ones (make asan-all)
asan: deps
	cmake --preset asan $(CMAKE_ARGS)
	cmake --build build/asan -j $(JOBS)
	$(CTEST) --test-dir build/asan -E '^(ops|e2e_reference|e2e_bits)$$'
asan-all: asan
	$(CTEST) --test-dir build/asan -R '^(ops|e2e_reference|e2e_bits)$$'

## make clang     build and test with clang
clang: deps
	cmake --preset $@ $(CMAKE_ARGS)
	cmake --build build/$@ -j $(JOBS)
	$(CTEST) --test-dir build/$@

## make tsan      engine tests under ThreadSanitizer
tsan: deps
	cmake --preset tsan $(CMAKE_ARGS)
	cmake --build build/tsan -j $(JOBS) --target unit_engine
	$(CTEST) --test-dir build/tsan -L threads

clang-build: deps
	cmake --preset clang $(CMAKE_ARGS)
	cmake --build build/clang -j $(JOBS)

## make coverage  line coverage of src/ (needs gcovr)
coverage: deps
	cmake --preset coverage $(CMAKE_ARGS)
	cmake --build build/coverage -j $(JOBS)
	$(CTEST) --test-dir build/coverage
	gcovr --root . --filter src/ --object-directory build/coverage --print-summary --fail-under-line 85

## make tidy      clang-tidy over the whole tree (TIDY_FILES="a.cpp b.cpp" for some)
tidy: deps
	@tools/tidy.sh $(TIDY_FILES)

## make format    clang-format the tree; make check-format only looks
format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i
check-format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run -Werror

## make bench     generation benchmark on the bundled model
bench: build
	$(BUILD)/bin/lily bench

## make install   install under PREFIX (default /usr/local)
install: build
	cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf build
