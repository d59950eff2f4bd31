// The extension module qkv._qkv: errors, threads, and the parts of the other files.

#include "python/bind/common.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"

namespace qkv::python {

void Ticker::operator()(int64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (!on_progress_.is_none()) on_progress_(done);
}

void refuse_rest(const nb::dict& given, const std::string& known) {
  for (const auto& [name, value] : given) {
    throw UsageError(concat("expected one of the options ", known, ", found '", nb::str(name).c_str(), "'"));
  }
}

namespace {

// A class qkv.NAME(Error, base).
PyObject* error_class(nb::module_& module, const char* name, nb::handle error, PyObject* base,
                      const char* doc) {
  const nb::object bases =
      error.is_valid() ? nb::make_tuple(error, nb::borrow(base)) : nb::make_tuple(nb::borrow(base));
  const nb::object made =
      nb::steal(PyErr_NewExceptionWithDoc(concat("qkv.", name).c_str(), doc, bases.ptr(), nullptr));
  if (!made.is_valid()) throw nb::python_error();
  module.attr(name) = made;
  return made.inc_ref().ptr();  // for the life of the process
}

// The library's errors as Python's: each is a qkv.Error, and the built-in exception that fits.
struct Errors {
  PyObject *error, *shape, *usage, *io, *data, *numeric;
} errors;

void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Stopped&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const ShapeError& e) {
    PyErr_SetString(errors.shape, e.what());
  } catch (const UsageError& e) {
    PyErr_SetString(errors.usage, e.what());
  } catch (const IoError& e) {
    PyErr_SetString(errors.io, e.what());
  } catch (const DataError& e) {
    PyErr_SetString(errors.data, e.what());
  } catch (const NumericError& e) {
    PyErr_SetString(errors.numeric, e.what());
  } catch (const Error& e) {
    PyErr_SetString(errors.error, e.what());
  }
}

void bind_errors(nb::module_& module) {
  PyObject* error = error_class(module, "Error", {}, PyExc_Exception,
                                "Base of the library's errors, which name what was expected and found.");
  errors = {
      error,
      error_class(module, "ShapeError", error, PyExc_ValueError, "A shape or dtype that does not fit."),
      error_class(module, "UsageError", error, PyExc_ValueError, "An option or argument that does not fit."),
      error_class(module, "IoError", error, PyExc_OSError, "A file that cannot be opened, read or written."),
      error_class(module, "DataError", error, PyExc_ValueError, "Invalid content of a file or text."),
      error_class(module, "NumericError", error, PyExc_ValueError, "An unexpected NaN or infinity."),
  };
  nb::register_exception_translator(translate);
}

}  // namespace
}  // namespace qkv::python

NB_MODULE(_qkv, module) {
  using namespace qkv::python;  // NOLINT(google-build-using-namespace)
  module.attr("__version__") = QKV_VERSION;
  bind_errors(module);
  module.def("threads", &qkv::threads, "The number of threads that one call uses.");
  module.def("set_threads", &qkv::set_threads, nb::arg("count"),
             "Sets the number of threads that one call uses, 1 to 1024. Results do not depend on it.");
  bind_tensors(module);
  bind_ops(module);
  bind_modules(module);
  bind_whole_models(module);
  bind_optimizers(module);
  bind_training(module);
  bind_models(module);
}
